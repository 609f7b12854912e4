#include <chrono>
#include <optional>

using namespace std::chrono_literals;

bool poll();
