#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "timing_wheel/durable/postgres_store.hpp"

// What goes to the server and comes back: parameters and results, in PostgreSQL's binary form.

namespace timing_wheel::durable::postgres {

/// A SQLSTATE, five characters, as a code of `postgres_category`; and back.
[[nodiscard]] std::error_code code_of(std::string_view sqlstate);
[[nodiscard]] std::string sqlstate_of(int code);

/// The types of an array's elements: PostgreSQL's numbers for them.
enum class element : std::uint32_t { bytea = 17, bigint = 20, integer = 23, text = 25 };

/// An array of one dimension.
class array {
 public:
  explicit array(element type);
  /// \param value what is added of each of `all`: a number, or text or bytes.
  template <class All, class Value = std::identity>
  array(element type, const All& all, const Value& value = {}) : array(type) {
    for (const auto& each : all) {
      add(std::invoke(value, each));
    }
  }

  /// A number, as wide as the type is.
  array& add(std::int64_t value);
  /// Text or bytes.
  array& add(std::string_view value);
  /// As it is sent.
  [[nodiscard]] std::string_view bytes();

 private:
  element type_;
  std::uint32_t count_ = 0;
  std::string bytes_;
};

/// The parameters of a statement, in the order of their numbers. Text and arrays are not copied.
class parameters {
 public:
  parameters() = default;
  parameters(const parameters&) = delete;
  parameters& operator=(const parameters&) = delete;

  parameters& bind(std::int64_t value);
  parameters& bind(std::string_view value);
  parameters& bind(array& value) { return bind(value.bytes()); }
  parameters& bind_null();

  [[nodiscard]] int count() const { return static_cast<int>(values_.size()); }
  [[nodiscard]] const char* const* values() const { return values_.data(); }
  [[nodiscard]] const int* lengths() const { return lengths_.data(); }
  [[nodiscard]] const int* formats() const { return formats_.data(); }

 private:
  parameters& add(const char* begin, std::size_t size);

  std::deque<std::string> kept_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

/// What a statement has answered.
class result {
 public:
  result() = default;
  explicit result(PGresult* owned) : owned_(owned) {}

  [[nodiscard]] explicit operator bool() const { return owned_ != nullptr; }
  [[nodiscard]] PGresult* get() const { return owned_.get(); }
  [[nodiscard]] int rows() const { return PQntuples(get()); }
  [[nodiscard]] bool is_null(int row, int column) const { return PQgetisnull(get(), row, column) != 0; }
  /// A number of any width, binary or written out; 0 for NULL.
  [[nodiscard]] std::int64_t integer(int row, int column) const;
  /// Text or bytes. Valid as long as the result.
  [[nodiscard]] std::string_view bytes(int row, int column) const;
  /// How many rows a statement has inserted, updated or deleted.
  [[nodiscard]] std::int64_t changed() const;

 private:
  struct clear {
    void operator()(PGresult* each) const noexcept { PQclear(each); }
  };
  std::unique_ptr<PGresult, clear> owned_;
};

/// A row of a result, which outlives it. Its members are those of `result`.
class result_row {
 public:
  result_row(const result& of, int number) noexcept : of_(of), number_(number) {}

  [[nodiscard]] bool is_null(int column) const { return of_.is_null(number_, column); }
  [[nodiscard]] std::int64_t integer(int column) const { return of_.integer(number_, column); }
  /// A number that is no larger than an `int`.
  [[nodiscard]] int count(int column) const { return static_cast<int>(integer(column)); }
  /// How many there are of something.
  [[nodiscard]] std::size_t size(int column) const { return static_cast<std::size_t>(integer(column)); }
  [[nodiscard]] std::string_view bytes(int column) const { return of_.bytes(number_, column); }

 private:
  const result& of_;
  int number_;
};

/// What `read` makes of each row.
template <class Read>
[[nodiscard]] auto read_each(const result& rows, const Read& read) {
  std::vector<decltype(read(result_row(rows, 0)))> found;
  found.reserve(static_cast<std::size_t>(rows.rows()));
  for (int number = 0; number < rows.rows(); ++number) {
    found.push_back(read(result_row(rows, number)));
  }
  return found;
}

}  // namespace timing_wheel::durable::postgres
