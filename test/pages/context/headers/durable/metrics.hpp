// cpp: statements
#include <ostream>

namespace durable = timing_wheel::durable;

extern std::ostream& page;
extern durable::scheduler checks;
