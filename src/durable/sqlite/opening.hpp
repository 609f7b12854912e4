#pragma once

#include <memory>
#include <string>

#include "durable/sqlite/database.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace timing_wheel::durable::sqlite {

/// Opens the file for the connection that writes, makes it if there is none, and sets it up.
[[nodiscard]] std::unique_ptr<database> open_writer(const std::string& file, const sqlite_options& options);
/// Opens a database of its own, without a file, for a store's only connection.
[[nodiscard]] std::unique_ptr<database> open_in_memory(const sqlite_options& options);
/// Opens the file once more, for reads beside a transaction.
[[nodiscard]] std::unique_ptr<database> open_reader(const std::string& file, const sqlite_options& options);

}  // namespace timing_wheel::durable::sqlite
