#include "durable/store/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace timing_wheel::durable {
namespace {

TEST(Text, IsUtf8AsUnicodeHasIt) {
  for (const std::string_view good :
       {"", "ship", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf", "\xe8\xae\xa2\xe5\x8d\x95"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xc1\xbf", "\xc2", "\xc2g", "\xe0\x9f\xbf", "\xe2\x82", "\xe2\x82g", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff\xfe", "ship\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << shown(bad, 10);
  }
}

TEST(Text, IsShownInOneLineThatNoTerminalObeys) {
  EXPECT_EQ(shown("order 17/\xe8\xae\xa2", 64), "order 17/\xe8\xae\xa2");
  EXPECT_EQ(shown("a\"b\\c\n\x1b[1m\x7f", 64), "a\\x22b\\x5cc\\x0a\\x1b[1m\\x7f");
  EXPECT_EQ(shown("\xc2\x9b\xc2\xa0", 64), "\\xc2\\x9b\xc2\xa0");
  EXPECT_EQ(shown("no \"route\"\n", std::string::npos, ""), "no \"route\"\\x0a");
  EXPECT_EQ(shown(std::string_view("\0\xff\xe8\xae", 4), 64), "\\x00\\xff\\xe8\\xae");
}

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(shown("12345", 5), "12345");
  EXPECT_EQ(shown("123456", 5), "12345...");
  EXPECT_EQ(shown("1234\xe8\xae\xa2", 5), "1234...");
}

}  // namespace
}  // namespace timing_wheel::durable
