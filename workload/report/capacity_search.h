#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace stoker::bench {

struct CapacityOptions {
  double threshold_percent = 90;  // AU that accelerators must keep
  uint64_t max = 1024;            // never more accelerators than these
  uint64_t repeats = 5;           // at most so many measurements confirm one number; >= 2
  double confidence = 0.95;       // 0.5..1, see CapacityResult
  /// Least standard deviation between repeats that is believed, in points of AU: two equal readings do not
  /// prove that there is no noise.
  double least_deviation = 0.05;
};

/// What is to be measured next.
struct CapacityProbe {
  uint64_t accelerators = 0;
  bool confirming = false;  // a repeat that counts for the verdict; false: it only steers the search
  friend bool operator==(const CapacityProbe&, const CapacityProbe&) = default;
};

enum class CapacityVerdict : uint8_t {
  kOpen,     // not measured often enough, or too close to the threshold for the repeats allowed
  kFed,      // long-run mean AU is at or above the threshold
  kStarved,  // it is below
};

/// One number of accelerators that was measured.
struct CapacityPoint {
  uint64_t accelerators = 0;
  std::vector<double> scouted;    // AU, %: measurements that steered the search
  std::vector<double> confirmed;  // AU, %: those that count
  double error_share = 0;         // the part of 1 - confidence that this point may use up
  CapacityVerdict verdict = CapacityVerdict::kOpen;

  /// Mean of the measurements that count, else of the others.
  double mean() const;
  /// Half the width of the interval around mean() that the verdict rests on; infinite below two measurements.
  double margin(const CapacityOptions& options) const;
  /// Measurements, of both kinds, at or above the threshold.
  uint64_t passes(double threshold_percent) const;
};

/// Let N* be the largest number of accelerators whose AU, averaged over ever more runs, is at or above the
/// threshold. With at least `confidence` all of this holds at once: fed <= N*, and N* < starved when that is
/// known. starved = fed + 1 pins it.
///
/// How: a number is called fed (starved) when the one-sided Student interval of its mean AU lies above
/// (below) the threshold. The measurements that chose a number are not among those that confirm it. The
/// chance of an error, 1 - confidence, is spent as 1/2, 1/6, 1/12 … 1/k(k+1) on the numbers in the order in
/// which they are first confirmed, and each share evenly on the looks after 2, 3 … repeats. Assumed: repeats
/// differ by independent, roughly normal noise, and more accelerators never have a higher mean AU.
struct CapacityResult {
  bool finished = false;            // nothing is left to measure
  uint64_t fed = 0;                 // largest number proved; 0: not even one is
  std::optional<uint64_t> starved;  // smallest number above `fed` proved not to be; none: none up to max
  uint64_t likely = 0;              // best single guess
  std::vector<CapacityPoint> points;
};

/// The search, without doing any measuring: ask Next(), measure, tell Add(). Doubling until a number fails,
/// bisection, then repeats on both sides of the edge in turns; where the repeats allowed do not decide, it
/// steps away from the edge (1, 2, 4, 8) until they do, and the answer is a range. Ends after 16 numbers were
/// confirmed, whatever the noise. Deterministic; one thread.
class CapacitySearch {
 public:
  /// REQUIRES max >= 1, repeats >= 2, 0.5 <= confidence < 1.
  explicit CapacitySearch(const CapacityOptions& options);
  /// Nothing: the search is over.
  std::optional<CapacityProbe> Next() const;
  /// AU in percent that was measured for `probe`.
  void Add(const CapacityProbe& probe, double au_percent);
  CapacityResult Result() const;
  const CapacityOptions& options() const { return options_; }

 private:
  /// Neighbours between which the edge lies, as it looks now.
  struct Edge {
    uint64_t fed = 0;      // proved
    uint64_t starved = 0;  // proved; max + 1 when none
    uint64_t low = 0;      // largest number that looks fed; 0: none
    uint64_t high = 0;     // smallest above that looks starved; max + 1 when none
  };
  Edge FindEdge() const;
  bool LooksFed(const CapacityPoint& point) const;
  bool Open(uint64_t accelerators) const;       // may be confirmed: no verdict, repeats left
  bool Exhausted(uint64_t accelerators) const;  // no verdict, no repeats left
  std::optional<CapacityProbe> Confirm(const Edge& edge) const;
  std::optional<uint64_t> StepDown(const Edge& edge) const;
  std::optional<uint64_t> StepUp(const Edge& edge) const;

  const CapacityOptions options_;
  std::map<uint64_t, CapacityPoint> points_;
  uint64_t confirmed_numbers_ = 0;  // INVARIANT: points with measurements that confirm
};

}  // namespace stoker::bench
