#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// The SQL that pages give to other languages and to administrators.

namespace timing_wheel::durable::test {

/// The blocks of SQL in a page, each as its statements.
inline std::vector<std::vector<std::string>> blocks_of_sql(const char* page) {
  std::ifstream file(page);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<std::vector<std::string>> blocks;
  for (std::size_t at = 0; (at = text.find("```sql\n", at)) != std::string::npos;) {
    const std::size_t end = text.find("\n```", at + 7);
    const std::string block = text.substr(at + 7, end - at - 6);
    std::vector<std::string>& statements = blocks.emplace_back();
    for (std::size_t from = 0, stop = 0; (stop = block.find(";\n", from)) != std::string::npos; from = stop + 2) {
      statements.push_back(block.substr(from, stop - from));
    }
    at = end;
  }
  return blocks;
}

}  // namespace timing_wheel::durable::test
