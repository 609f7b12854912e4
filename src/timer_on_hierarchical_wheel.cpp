#include "basic_timer.hpp"

namespace timing_wheel {

template class basic_timer<hierarchical_wheel, std::chrono::steady_clock>;
template class basic_timer<hierarchical_wheel, manual_clock>;

}  // namespace timing_wheel
