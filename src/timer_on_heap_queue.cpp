#include "basic_timer.hpp"

namespace timing_wheel {

template class basic_timer<heap_queue, std::chrono::steady_clock>;
template class basic_timer<heap_queue, manual_clock>;

}  // namespace timing_wheel
