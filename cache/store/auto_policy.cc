#include "cache/store/auto_policy.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "cache/base/units.h"

namespace stoker {
namespace {

// Tried on the traces of tests/bench/evict_sim with 16 to 100,000 objects, equal and mixed sizes, many seeds.
constexpr double kAllowance = 0.01;        // of what is asked for: a lead below this is none
constexpr double kBank = 1.0;              // of the capacity: how far behind a policy may fall
constexpr double kEnoughShare = 1.0 / 8;   // of the capacity: a lead that decides,
constexpr double kEnoughDeviations = 2.5;  // if chance does not get as far
constexpr double kWorthwhile = 0.1;        // hit ratio from which recency is believed
constexpr double kBlockShare = 2.0;        // of the capacity: hits of retain and lru together that tell a tie
constexpr double kBlockObjects = 128;      // and at least so many objects
constexpr unsigned kMaxTies = 64;          // blocks
constexpr double kContentShare = 1.0 / 8;  // of the capacity: asked for before content is called useless
constexpr uint64_t kContentUses = 16;      // and at least so many uses
constexpr double kUseless = 0.02;          // hit ratio at or under which content is of no use
constexpr double kUseful = 0.05;           // and from which it is
constexpr double kMostlyNew = 0.8;         // of what is asked for: never seen before
constexpr double kFade = 0.9576;           // per content block; 2^(-1/16): half after two capacities
constexpr unsigned kTooLarge = 64;  // more uses of objects that the sample is too small for than of others
constexpr double kMeanWeight = 1.0 / 128;  // of one object in the mean size

/// The finishing step of splitmix64 (public domain, Vigna).
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

bool Sampled(uint64_t mixed, unsigned shift) {
  return shift == 0 || mixed >> (64 - shift) == 0;
}

std::string Percent(double part, double whole) {
  return std::to_string(static_cast<int>(std::lround(100 * part / whole))) + " %";
}

}  // namespace

AutoPolicy::AutoPolicy(uint64_t seed, size_t max_shadow_objects)
    : seed_(seed), max_shadow_objects_(max_shadow_objects) {}

void AutoPolicy::Use(const ObjectId& id, bool here, uint64_t bytes, uint64_t capacity) {
  const uint64_t key = std::hash<ObjectId>()(id);
  if (!Sampled(Mix(key ^ seed_), shift_)) return;
  share_ = capacity >> shift_;
  if (bytes == 0 || bytes > capacity) return;  // no policy could keep it
  if (bytes > share_) {
    if (++too_large_ >= kTooLarge) Rescale(shift_ - 1);
    return;
  }
  if (too_large_ > 0) --too_large_;

  std::array<bool, kFixedPolicies> hit{};
  for (size_t i = 0; i < kFixedPolicies; ++i) hit[i] = shadows_[i].names.Use(id, bytes, share_);
  const bool known = seen_.Has(key);
  if (!known) seen_.Add(key, kMaxSeen);

  const auto size = static_cast<double>(bytes);
  object_bytes_ += object_bytes_ == 0 ? size : (size - object_bytes_) * kMeanWeight;
  object_square_ += object_square_ == 0 ? size * size : (size * size - object_square_) * kMeanWeight;
  for (Block* block : {&block_, &content_}) {
    block->asked += size;
    if (here) block->here += size;
    if (!known) block->fresh += size;
    ++block->uses;
  }
  faded_asked_ += size;
  for (size_t i = 0; i < kFixedPolicies; ++i) {
    if (!hit[i]) continue;
    shadows_[i].block += size;
    shadows_[i].faded += size;
  }
  LookAtLeads(size, hit);
  LookAtBlock();
  LookAtContent();
  FitSample();
}

double AutoPolicy::Enough() const {
  const auto share = static_cast<double>(share_);
  // Two policies whose hits fall on different objects drift apart like a random walk of as many steps as
  // there are objects, each of an object's size.
  const double chance = std::sqrt(share * object_square_ / object_bytes_);
  return std::max(kEnoughShare * share, kEnoughDeviations * chance);
}

void AutoPolicy::LookAtLeads(double bytes, const std::array<bool, kFixedPolicies>& hit) {
  const auto deciding = static_cast<size_t>(queues_.rule());
  const double bank = kBank * static_cast<double>(share_);
  const auto step = [&](double& lead, bool ahead, bool behind, double allowance) {
    lead = std::max(-bank, lead + bytes * (static_cast<double>(ahead) - static_cast<double>(behind)));
    if (lead > 0) lead = std::max(0.0, lead - bytes * allowance);
  };
  size_t best = deciding;
  for (size_t i = 0; i < kFixedPolicies; ++i) {
    if (i == deciding) continue;
    step(shadows_[i].lead, hit[i], hit[deciding], kAllowance);
    if (shadows_[i].lead > Enough() && (best == deciding || shadows_[i].lead > shadows_[best].lead)) best = i;
  }
  since_era_ += bytes;
  if (queues_.rule() == CachePolicy::kRetain) {
    if (best != deciding) BeginEra();
  } else if (since_era_ >= static_cast<double>(share_)) {
    step(retain_behind_, hit[deciding], hit[static_cast<size_t>(CachePolicy::kRetain)], kAllowance);
    if (retain_behind_ > Enough()) BeginEra();
  }
  if (best != deciding) Choose(static_cast<CachePolicy>(best), Why::kAhead);
}

void AutoPolicy::LookAtBlock() {
  const double lru = Of(CachePolicy::kLru).block;
  const double retain = Of(CachePolicy::kRetain).block;
  // Hits are what tells: a first pass has none.
  if (lru + retain < std::max(kBlockShare * static_cast<double>(share_), kBlockObjects * object_bytes_))
    return;
  const bool tie = lru >= kWorthwhile * block_.asked && lru >= retain - kAllowance * block_.asked;
  ties_ = tie ? ties_ + 1 : 0;
  if (queues_.rule() == CachePolicy::kRetain && ties_ >= ties_needed_) Choose(CachePolicy::kLru, Why::kFits);
  block_ = Block();
  for (Shadow& shadow : shadows_) shadow.block = 0;
}

void AutoPolicy::LookAtContent() {
  if (content_.asked < static_cast<double>(share_) * kContentShare || content_.uses < kContentUses) return;
  if (pressed_ && useful_ && content_.here <= kUseless * content_.asked &&
      content_.fresh >= kMostlyNew * content_.asked) {
    BeginEra();
  } else if (content_.here >= kUseful * content_.asked) {
    useful_ = true;
  }
  content_ = Block();
  pressed_ = false;
  faded_asked_ *= kFade;
  for (Shadow& shadow : shadows_) shadow.faded *= kFade;
}

void AutoPolicy::Choose(CachePolicy policy, Why why) {
  if (why_ == Why::kFits) ties_needed_ = std::min(kMaxTies, 4 * ties_needed_);
  if (why == Why::kAhead && policy == CachePolicy::kLru) ties_needed_ = 1;
  ties_ = 0;
  queues_.SetRule(policy);
  why_ = why;
  ++switches_;
  retain_behind_ = 0;
  for (Shadow& shadow : shadows_) shadow.lead = 0;
}

void AutoPolicy::BeginEra() {
  queues_.BeginEra();
  Of(CachePolicy::kRetain).policy.BeginEra();
  useful_ = false;
  retain_behind_ = 0;
  since_era_ = 0;
}

void AutoPolicy::Rescale(unsigned shift) {
  const double factor = std::ldexp(1.0, static_cast<int>(shift_) - static_cast<int>(shift));
  shift_ = shift;
  too_large_ = 0;
  retain_behind_ *= factor;
  since_era_ *= factor;
  faded_asked_ *= factor;
  for (Shadow& shadow : shadows_) {
    shadow.lead *= factor;
    shadow.block *= factor;
    shadow.faded *= factor;
  }
  for (Block* block : {&block_, &content_}) {
    block->asked *= factor;
    block->here *= factor;
    block->fresh *= factor;
  }
}

void AutoPolicy::FitSample() {
  size_t most = 0;
  for (const Shadow& shadow : shadows_) most = std::max(most, shadow.names.objects());
  if (most > max_shadow_objects_ && shift_ < kMaxShift) {
    // One pass over a bounded table, each time the sample has become twice too large.
    Rescale(shift_ + 1);
    for (Shadow& shadow : shadows_) {
      shadow.names.DropIf(
          [this](const ObjectId& id) { return !Sampled(Mix(std::hash<ObjectId>()(id) ^ seed_), shift_); });
    }
    return;
  }
  // lru holds what is read now, full size or not.
  const NameCache& now = Of(CachePolicy::kLru).names;
  if (shift_ > 0 && content_.uses == 0 && now.objects() < max_shadow_objects_ / 8 &&
      now.used_bytes() > share_ / 2) {
    Rescale(shift_ - 1);
  }
}

size_t AutoPolicy::shadow_objects() const {
  size_t all = 0;
  for (const Shadow& shadow : shadows_) all += shadow.names.objects();
  return all;
}

void AutoPolicy::Insert(EvictionNode& node, bool used) {
  if (!used && node.queue == 0) useful_ = true;  // left by an earlier run
  queues_.Insert(node, used);
}

EvictionNode* AutoPolicy::Victim(RoomFor what) {
  // Whoever asks for something to be in the cache knows better.
  if (what == RoomFor::kWarm) return queues_.AnyVictim();
  EvictionNode* const victim = queues_.Victim(what);
  pressed_ |= victim == nullptr;
  return victim;
}

void AutoPolicy::Forgotten(const EvictionNode& node) {
  pressed_ = true;
  queues_.Forgotten(node);
}

PolicyState AutoPolicy::State() const {
  PolicyState state = queues_.State();
  state.switches = switches_;
  state.ghosts += seen_.size();
  return state;
}

std::string AutoPolicy::Reason() const {
  if (faded_asked_ <= 0) return "nothing has been read yet";
  std::string text = why_ == Why::kStart   ? "nothing did better so far"
                     : why_ == Why::kAhead ? "it did better"
                                           : "what is used fits";
  text += ": of about " +
          FormatBytes(static_cast<uint64_t>(std::ldexp(faded_asked_, static_cast<int>(shift_)))) +
          " asked for lately";
  for (const CachePolicy policy : {CachePolicy::kRetain, CachePolicy::kLru, CachePolicy::kS3Fifo}) {
    text += (policy == CachePolicy::kRetain ? " " : ", ") + std::string(PolicyName(policy)) +
            " would have hit " + Percent(Of(policy).faded, faded_asked_);
  }
  return text;
}

}  // namespace stoker
