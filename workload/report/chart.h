#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stoker::bench {

/// One line of a chart. `color`: 0…5, the page's palette; each colour also has a dash pattern of its own.
struct ChartLine {
  std::string name;
  int color = 0;
  bool area = false;  // filled down to the axis
  bool dots = false;  // a dot at each point
  bool plain = true;  // joined; else dots only
  /// x, y; not drawn where y is not finite. Sorted by x.
  std::vector<std::pair<double, double>> points;
};

/// From y0 to y1 at x: the spread behind a dot.
struct ChartRange {
  double x = 0, y0 = 0, y1 = 0;
};

/// A stretch of x with a name, e.g. an epoch; every second one is shaded.
struct ChartBand {
  double x0 = 0, x1 = 0;
  std::string name;
};

enum class AxisUnit { kPlain, kPercent, kMebiPerSecond, kMicros, kPerSecond };

/// What is drawn: plain values; texts are escaped when it is written.
struct Chart {
  std::string title;
  std::string summary;  // a sentence for those who cannot see it, and under the title for all
  std::string x_name = "time";
  bool x_is_time = true;  // seconds; else the points' x are 1, 2, 3, …
  AxisUnit unit = AxisUnit::kPlain;
  bool log_y = false;
  std::optional<double> y_min, y_max;  // else 0 (or the lowest decade) and what fits
  std::vector<ChartLine> lines;
  std::vector<ChartRange> ranges;
  std::vector<ChartBand> bands;
  std::optional<std::pair<double, std::string>> mark;  // a horizontal line and its name
};

/// A figure: the picture, a legend and the same figures as a table to unfold. Needs the page's style
/// (html_style.h); text keeps its size however narrow the page is. Pure.
std::string ChartFigure(const Chart& chart);

/// Round numbers from `low` to `high` for an axis, about `count` of them. Pure.
std::vector<double> AxisTicks(double low, double high, int count);

}  // namespace stoker::bench
