#include "durable/postgres/values.hpp"

#include <charconv>
#include <limits>
#include <string>

#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable::postgres {

namespace {

// The most significant byte first, in any order of the machine's.
template <class Number>
void append_number(std::string& to, Number value) {
  for (int shift = 8 * static_cast<int>(sizeof(Number)) - 8; shift >= 0; shift -= 8) {
    to.push_back(static_cast<char>((static_cast<std::uint64_t>(value) >> shift) & 0xff));
  }
}

// Of any width, with its sign.
std::int64_t number_in(std::string_view bytes) {
  std::uint64_t value = !bytes.empty() && (bytes.front() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (const char each : bytes) {
    value = (value << 8) | static_cast<unsigned char>(each);
  }
  return static_cast<std::int64_t>(value);
}

constexpr std::size_t place_of_count = 12;

// Neither libpq nor the server counts any further.
std::size_t checked_length(std::size_t size) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw timer_error(code_of("54000"), "a parameter has " + std::to_string(size) + " bytes; it may have " +
                                            std::to_string(std::numeric_limits<int>::max()));
  }
  return size;
}

}  // namespace

array::array(element type) : type_(type) {
  append_number(bytes_, std::uint32_t{1});  // dimension
  append_number(bytes_, std::uint32_t{0});  // no NULL
  append_number(bytes_, static_cast<std::uint32_t>(type));
  append_number(bytes_, std::uint32_t{0});  // count
  append_number(bytes_, std::uint32_t{1});  // the first one's number
}

array& array::add(std::int64_t value) {
  ++count_;
  if (type_ == element::integer) {
    append_number(bytes_, std::uint32_t{4});  // its width
    append_number(bytes_, static_cast<std::int32_t>(value));
  } else {
    append_number(bytes_, std::uint32_t{8});
    append_number(bytes_, value);
  }
  return *this;
}

array& array::add(std::string_view value) {
  ++count_;
  append_number(bytes_, static_cast<std::uint32_t>(checked_length(value.size())));
  bytes_.append(value);
  return *this;
}

std::string_view array::bytes() {
  std::string count;
  append_number(count, count_);
  bytes_.replace(place_of_count, count.size(), count);
  return bytes_;
}

parameters& parameters::add(const char* begin, std::size_t size) {
  lengths_.push_back(static_cast<int>(checked_length(size)));
  values_.push_back(begin);
  formats_.push_back(1);
  return *this;
}

parameters& parameters::bind(std::int64_t value) {
  append_number(kept_.emplace_back(), value);
  return add(kept_.back().data(), kept_.back().size());
}

parameters& parameters::bind(std::string_view value) {
  return add(value.empty() ? "" : value.data(), value.size());  // a null pointer would be NULL
}

parameters& parameters::bind_null() { return add(nullptr, 0); }

std::int64_t result::integer(int row, int column) const {
  const std::string_view found = bytes(row, column);
  if (PQfformat(get(), column) == 1) {
    return number_in(found);
  }
  std::int64_t value = 0;
  std::from_chars(found.data(), found.data() + found.size(), value);
  return value;
}

std::string_view result::bytes(int row, int column) const {
  return {PQgetvalue(get(), row, column), static_cast<std::size_t>(PQgetlength(get(), row, column))};
}

std::int64_t result::changed() const {
  const std::string_view text = PQcmdTuples(get());
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace timing_wheel::durable::postgres
