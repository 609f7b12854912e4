#include "basic_timer.hpp"

namespace timing_wheel {

template class basic_timer<hashed_wheel, std::chrono::steady_clock>;
template class basic_timer<hashed_wheel, manual_clock>;

}  // namespace timing_wheel
