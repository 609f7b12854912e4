#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "timing_wheel/histogram.hpp"
#include "timing_wheel/metrics.hpp"

namespace timing_wheel::detail {

/// The name of a metric, and a function that reads the value from its subject.
template <class Of>
struct metric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const Of&);
};

inline constexpr const char* counter = "counter";
inline constexpr const char* gauge = "gauge";

/// For `metric::value`: what a member says.
template <auto Member>
double member(const auto& of) {
  return static_cast<double>(of.*Member);
}

/// A page in the text format of Prometheus:
/// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
class exposition {
 public:
  /// Begins what has one name: all its samples follow.
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void sample(const metric_labels& labels, double value);
  void sample(const metric_labels& labels, const histogram& durations);

  /// All of `metrics`; `for_each(sample)` calls `sample(labels, of)` for each thing that they are of.
  template <class Of, std::size_t Count, class ForEach>
  void write(const std::array<metric<Of>, Count>& metrics, const ForEach& for_each) {
    for (const metric<Of>& one : metrics) {
      begin(one.name, one.type, one.help);
      for_each([&](const metric_labels& labels, const Of& of) { sample(labels, one.value(of)); });
    }
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void line(std::string_view suffix, const metric_labels& labels, std::string_view bound, double value);

  std::string name_;
  std::string text_;
};

/// \throws timer_error (`invalid_option`) if they are not as `metric_labels` says.
void validate(const metric_labels& labels);

/// Those, and one more.
[[nodiscard]] metric_labels with(metric_labels labels, const char* name, std::string value);

}  // namespace timing_wheel::detail
