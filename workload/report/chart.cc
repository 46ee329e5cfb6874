#include "workload/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "workload/base/console.h"
#include "workload/report/html.h"

namespace stoker::bench {
namespace {

// The picture is stretched to its box, lines keep their width; labels are HTML beside it, placed in percent.
constexpr double kSide = 1000;
constexpr int kColors = 6;

std::string Coordinate(double value) {
  return Text("%.1f", value);
}

std::string UnitText(AxisUnit unit, double value, double step) {
  const int decimals = step >= 1 || step <= 0 ? 0 : step >= 0.1 ? 1 : 2;
  switch (unit) {
    case AxisUnit::kMicros:
      return Micros(value);
    case AxisUnit::kPercent:
      return Num(value, decimals) + " %";
    case AxisUnit::kPlain:
    case AxisUnit::kMebiPerSecond:
    case AxisUnit::kPerSecond:
      break;
  }
  return Num(value, decimals);
}

std::string_view UnitName(AxisUnit unit) {
  switch (unit) {
    case AxisUnit::kMebiPerSecond:
      return "MiB/s";
    case AxisUnit::kPerSecond:
      return "per second";
    case AxisUnit::kPlain:
    case AxisUnit::kPercent:
    case AxisUnit::kMicros:
      break;
  }
  return "";
}

std::string CellText(AxisUnit unit, double value) {
  if (!std::isfinite(value)) return "–";
  switch (unit) {
    case AxisUnit::kMicros:
      return Micros(value);
    case AxisUnit::kPercent:
      return Num(value, 2) + " %";
    case AxisUnit::kMebiPerSecond:
    case AxisUnit::kPerSecond:
      return Num(value, 1);
    case AxisUnit::kPlain:
      break;
  }
  return Num(value, 2);
}

/// Seconds, minutes or hours, whichever keeps an axis' numbers short.
struct TimeUnit {
  double seconds;
  const char* name;
};
TimeUnit UnitOfTime(double longest) {
  if (longest >= 3 * 3600) return {3600, "h"};
  if (longest >= 600) return {60, "min"};
  return {1, "s"};
}

/// From figures to the picture's 0…1000.
struct Scale {
  double x_low = 0, x_high = 1;
  double y_low = 0, y_high = 1;
  bool log_y = false;

  double X(double x) const { return kSide * std::clamp((x - x_low) / (x_high - x_low), 0.0, 1.0); }
  double Y(double y) const {
    const double share = log_y ? (std::log10(std::max(y, y_low)) - std::log10(y_low)) /
                                     (std::log10(y_high) - std::log10(y_low))
                               : (y - y_low) / (y_high - y_low);
    return kSide * (1 - std::clamp(share, 0.0, 1.0));
  }
};

Scale ScaleOf(const Chart& chart) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double x_low = kInfinity, x_high = -kInfinity, y_low = kInfinity, y_high = -kInfinity;
  const auto see = [&](double x, double y) {
    x_low = std::min(x_low, x);
    x_high = std::max(x_high, x);
    if (!std::isfinite(y) || (chart.log_y && y <= 0)) return;
    y_low = std::min(y_low, y);
    y_high = std::max(y_high, y);
  };
  for (const ChartLine& line : chart.lines) {
    for (const auto& [x, y] : line.points) see(x, y);
  }
  for (const ChartRange& range : chart.ranges) {
    see(range.x, range.y0);
    see(range.x, range.y1);
  }
  if (chart.mark) y_high = std::max(y_high, chart.mark->first);
  Scale out;
  out.log_y = chart.log_y;
  out.x_low = std::isfinite(x_low) ? x_low : 0;
  out.x_high = std::isfinite(x_high) ? x_high : 1;
  if (chart.x_is_time) {
    out.x_low = std::min(out.x_low, 0.0);
  } else {  // room left and right of the first and the last
    out.x_low -= 0.5;
    out.x_high += 0.5;
  }
  if (out.x_high <= out.x_low) out.x_high = out.x_low + 1;
  if (!std::isfinite(y_high)) y_low = y_high = chart.log_y ? 1 : 0;
  if (chart.log_y) {
    out.y_low = std::pow(10, std::floor(std::log10(y_low)));
    out.y_high = std::pow(10, std::ceil(std::log10(y_high)));
    if (out.y_high <= out.y_low) out.y_high = out.y_low * 10;
  } else {
    out.y_low = chart.y_min.value_or(0);
    out.y_high = chart.y_max.value_or(y_high);
    if (out.y_high <= out.y_low) out.y_high = out.y_low + 1;
    if (!chart.y_max) out.y_high = AxisTicks(out.y_low, out.y_high, 5).back();
  }
  return out;
}

std::vector<double> YTicks(const Chart& chart, const Scale& scale) {
  if (!chart.log_y) return AxisTicks(scale.y_low, scale.y_high, 5);
  std::vector<double> out;
  for (double tick = scale.y_low; tick <= scale.y_high * 1.001; tick *= 10) out.push_back(tick);
  return out;
}

std::string LinePath(const ChartLine& line, const Scale& scale, bool area) {
  std::string out;
  double first_x = 0;
  double last_x = 0;
  bool open = false;
  const auto close = [&] {
    if (area && open) {
      out += "L" + Coordinate(last_x) + " " + Coordinate(kSide) + "L" + Coordinate(first_x) + " " +
             Coordinate(kSide) + "Z";
    }
    open = false;
  };
  for (const auto& [x, y] : line.points) {
    if (!std::isfinite(y)) {
      close();
      continue;
    }
    last_x = scale.X(x);
    if (!open) first_x = last_x;
    out += (open ? "L" : "M") + Coordinate(last_x) + " " + Coordinate(scale.Y(y));
    open = true;
  }
  close();
  return out;
}

/// A dot is a line of no length with round ends: it stays round in a stretched picture.
std::string Dot(double x, double y) {
  return "M" + Coordinate(x) + " " + Coordinate(y) + "h0";
}

std::string Picture(const Chart& chart, const Scale& scale) {
  std::string out = "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" +
                    EscapeHtml(chart.title + ". " + chart.summary) + "\">";
  for (size_t i = 0; i < chart.bands.size(); i += 2) {
    const double x0 = scale.X(chart.bands[i].x0);
    out += "<rect class=\"band\" x=\"" + Coordinate(x0) + "\" y=\"0\" width=\"" +
           Coordinate(scale.X(chart.bands[i].x1) - x0) + "\" height=\"1000\"/>";
  }
  std::string grid;
  for (const double tick : YTicks(chart, scale)) {
    grid += "M0 " + Coordinate(scale.Y(tick)) + "H1000";
  }
  out += "<path class=\"grid\" d=\"" + grid + "\"/>";
  if (chart.mark) {
    out += "<path class=\"mark\" d=\"M0 " + Coordinate(scale.Y(chart.mark->first)) + "H1000\"/>";
  }
  std::string spread;
  for (const ChartRange& range : chart.ranges) {
    spread += "M" + Coordinate(scale.X(range.x)) + " " + Coordinate(scale.Y(range.y0)) + "V" +
              Coordinate(scale.Y(range.y1));
  }
  if (!spread.empty()) out += "<path class=\"range\" d=\"" + spread + "\"/>";
  for (const ChartLine& line : chart.lines) {
    const std::string color = "s" + std::to_string(line.color % kColors);
    if (line.area) out += "<path class=\"area " + color + "\" d=\"" + LinePath(line, scale, true) + "\"/>";
    if (line.plain) out += "<path class=\"line " + color + "\" d=\"" + LinePath(line, scale, false) + "\"/>";
    if (!line.dots) continue;
    std::string dots;
    for (const auto& [x, y] : line.points) {
      if (std::isfinite(y)) dots += Dot(scale.X(x), scale.Y(y));
    }
    out += "<path class=\"dots " + color + "\" d=\"" + dots + "\"/>";
  }
  return out + "</svg>";
}

std::string Labels(const Chart& chart, const Scale& scale) {
  std::string y;
  const std::vector<double> y_ticks = YTicks(chart, scale);
  const double y_step = y_ticks.size() > 1 && !chart.log_y ? y_ticks[1] - y_ticks[0] : 1;
  for (const double tick : y_ticks) {
    y += "<span style=\"top:" + Text("%.2f", scale.Y(tick) / 10) + "%\">" +
         UnitText(chart.unit, tick, y_step) + "</span>";
  }
  std::string x;
  if (chart.x_is_time) {
    const TimeUnit unit = UnitOfTime(scale.x_high);
    const std::vector<double> ticks = AxisTicks(scale.x_low / unit.seconds, scale.x_high / unit.seconds, 4);
    const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
    for (const double tick : ticks) {
      if (tick * unit.seconds > scale.x_high * 1.0001) continue;
      x += "<span style=\"left:" + Text("%.2f", scale.X(tick * unit.seconds) / 10) + "%\">" +
           Num(tick, step >= 1     ? 0
                     : step >= 0.1 ? 1
                                   : 2) +
           " " + unit.name + "</span>";
    }
  } else {
    std::set<double> all;
    for (const ChartLine& line : chart.lines) {
      for (const auto& point : line.points) all.insert(point.first);
    }
    const size_t every = std::max<size_t>(1, (all.size() + 11) / 12);
    size_t i = 0;
    for (const double at : all) {
      if (i++ % every == 0)
        x += "<span style=\"left:" + Text("%.2f", scale.X(at) / 10) + "%\">" + Num(at, 0) + "</span>";
    }
  }
  return "<div class=\"ylabels\" aria-hidden=\"true\">" + y +
         "</div><div class=\"xlabels\" aria-hidden=\"true\">" + x + "</div>";
}

std::string Legend(const Chart& chart) {
  std::string out = "<ul class=\"legend\">";
  for (const ChartLine& line : chart.lines) {
    out += "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"" +
           std::string(line.plain ? "line" : "dots") + " s" + std::to_string(line.color % kColors) +
           "\" d=\"" + (line.plain ? "M0 4H24" : "M12 4h0") + "\"/></svg>" + EscapeHtml(line.name) + "</li>";
  }
  if (!chart.ranges.empty()) {
    out +=
        "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"range\" d=\"M12 "
        "0V8\"/></svg>lowest to "
        "highest accelerator</li>";
  }
  if (chart.mark) {
    out += "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"mark\" d=\"M0 4H24\"/></svg>" +
           EscapeHtml(chart.mark->second) + "</li>";
  }
  return out + "</ul>";
}

std::string Alternative(const Chart& chart) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> head = {chart.x_is_time ? EscapeHtml(chart.x_name) + ", s"
                                                   : EscapeHtml(chart.x_name)};
  std::set<double> all;
  const std::string unit(UnitName(chart.unit));
  for (const ChartLine& line : chart.lines) {
    head.push_back(EscapeHtml(line.name) + (unit.empty() ? "" : ", " + unit));
    for (const auto& point : line.points) all.insert(point.first);
  }
  if (!chart.ranges.empty()) {
    head.push_back("lowest");
    head.push_back("highest");
  }
  rows.push_back(head);
  for (const double x : all) {
    std::vector<std::string> row = {Num(x, chart.x_is_time ? 2 : 0)};
    for (const ChartLine& line : chart.lines) {
      const auto at = std::lower_bound(line.points.begin(), line.points.end(), x,
                                       [](const auto& point, double value) { return point.first < value; });
      row.push_back(at == line.points.end() || at->first != x ? "" : CellText(chart.unit, at->second));
    }
    if (!chart.ranges.empty()) {
      const auto range = std::find_if(chart.ranges.begin(), chart.ranges.end(),
                                      [x](const ChartRange& candidate) { return candidate.x == x; });
      row.push_back(range == chart.ranges.end() ? "" : CellText(chart.unit, range->y0));
      row.push_back(range == chart.ranges.end() ? "" : CellText(chart.unit, range->y1));
    }
    rows.push_back(row);
  }
  return "<details class=\"data\"><summary>Figures as a table</summary>" + HtmlTable(rows, chart.title) +
         "</details>";
}

}  // namespace

std::vector<double> AxisTicks(double low, double high, int count) {
  const double span = high - low;
  if (!(span > 0) || count < 1) return {low};
  const double raw = span / count;
  const double decade = std::pow(10, std::floor(std::log10(raw)));
  const double share = raw / decade;
  const double step = decade * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step < high - step * 1e-9; ++i) out.push_back(i * step);
  // The last one is not below what is shown.
  out.push_back(std::ceil(high / step - 1e-9) * step);
  return out;
}

std::string ChartFigure(const Chart& chart) {
  const Scale scale = ScaleOf(chart);
  std::string bands;
  for (const ChartBand& band : chart.bands) {
    const double middle = (scale.X(band.x0) + scale.X(band.x1)) / 20;
    const bool room = scale.X(band.x1) - scale.X(band.x0) > 60;
    if (room) {
      bands += "<span style=\"left:" + Text("%.2f", middle) + "%\">" + EscapeHtml(band.name) + "</span>";
    }
  }
  const std::string unit(UnitName(chart.unit));
  return "<figure><figcaption><h4>" + EscapeHtml(chart.title) +
         (unit.empty() ? "" : " <small>" + unit + "</small>") + "</h4><p>" + EscapeHtml(chart.summary) +
         "</p></figcaption><div class=\"plot\">" + Picture(chart, scale) +
         "<div class=\"bandlabels\" aria-hidden=\"true\">" + bands + "</div>" + Labels(chart, scale) +
         "</div>" + Legend(chart) + Alternative(chart) + "</figure>\n";
}

}  // namespace stoker::bench
