// Triangular attention for CPUs without torch and without the C++ library: plain pointers and POSIX threads.
// hatch_build.py compiles this file once for each instruction set (ISA and LANES, the floats in a vector) and once without ISA for
// the functions that kernel.py calls.
//
// Forward and gradients are all of one form, out_t = sum over s up to t of (query_t . key_s) value_s:
//
//            query      key        value
//   out      phi(q)     phi(k)     v          z, the normaliser, is the same sum with 1 as value
//   dq       (dn, dz)   (v, 1)     phi(k)     dn = grad / z, dz = -dn . out
//   dk       (v, 1)     (dn, dz)   phi(q)     from the other end
//   dv       phi(k)     phi(q)     dn         from the other end
//
// Tokens go by chunks: pairs within a chunk by a masked product, pairs across chunks through a state, the sum of
// key^T value. Additions to the state are compensated (Kahan), so rounding does not grow with the number of tokens.

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__) && defined(__x86_64__)  // names as old as these, so that the library runs on older systems
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.17");
#endif

struct Tokens {  // (batch, heads, tokens, dim), dense in the last; strides in numbers
  void* data;
  int64_t batch, head, token;
};

struct Job {
  Tokens q, k, v, out, grad, dq, dk, dv;
  float* z;  // (batch, heads, tokens), dense
  int64_t batch, heads, tokens;
  int32_t dim, bfloat16, threads, backward;
};

#ifndef ISA

#if defined(__x86_64__)
extern "C" int attcr_run_avx2(const Job*);
extern "C" int attcr_run_avx512(const Job*);
#elif defined(__aarch64__)
extern "C" int attcr_run_neon(const Job*);
#endif

#define PUBLIC extern "C" __attribute__((visibility("default")))

// The widest instruction set of this processor that was compiled: the floats in a vector, or 0.
PUBLIC int attcr_lanes(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return 16;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
#elif defined(__aarch64__)
  return 4;
#else
  return 0;
#endif
}

// 0 when done, 1 for lanes or a size that were not compiled, 2 without memory.
PUBLIC int attcr_run(const Job* job, int lanes) {
  switch (lanes) {
#if defined(__x86_64__)
    case 8: return attcr_run_avx2(job);
    case 16: return attcr_run_avx512(job);
#elif defined(__aarch64__)
    case 4: return attcr_run_neon(job);
#endif
    default: return 1;
  }
}

#else

namespace {

typedef float V __attribute__((vector_size(4 * LANES)));
typedef float Loose __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Whole __attribute__((vector_size(4 * LANES)));

constexpr float kEps = 1e-6f;  // as in naive.py
constexpr int kChunk = 16;
constexpr int64_t kShortest = 2048;  // tokens of a segment, at least

constexpr int Vectors(int d) { return (d + LANES - 1) / LANES; }
constexpr int Padded(int d) { return Vectors(d) * LANES; }

// Tokens whose sums of `vectors` vectors each stay in registers together: AVX2 has 16 of them, the others 32.
constexpr int Together(int vectors) {
  for (int t = 8; t > 1; t /= 2)
    if (t * vectors <= (LANES == 8 ? 12 : 24)) return t;
  return 1;
}

inline V Splat(float x) { return V{} + x; }
inline V Min(V a, V b) { return a < b ? a : b; }
inline V Max(V a, V b) { return a < b ? b : a; }
inline V& At(float* row, int r) { return reinterpret_cast<V*>(row)[r]; }
inline V At(const float* row, int r) { return reinterpret_cast<const V*>(row)[r]; }

inline float Total(V x) {
#pragma GCC unroll 4
  for (int w = LANES / 2; w; w /= 2) {
    Whole other;
    for (int l = 0; l < LANES; ++l) other[l] = l ^ w;
    x += __builtin_shuffle(x, other);
  }
  return x[0];
}

inline V Exp(V x) {  // of -87 <= x <= 0: 2^n times a polynomial on |r| <= ln(2) / 2
  const V n = (x * 1.44269504f + 12582912.f) - 12582912.f;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = Splat(1.f / 720);
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  return p * (V)((__builtin_convertvector(n, Whole) + 127) << 23);
}

inline V Phi(V x) {  // ELU(x) + 1; NaN stays NaN
  const V low = Exp(Max(Min(x, V{}), Splat(-87))), high = Max(x, V{});
  return x == x ? low + high : x;
}

// A memcpy of a whole token becomes a slow string instruction: whole vectors are moved as such.
template <int D>
inline void Load(const float* from, float* to) {
  constexpr int kWhole = D / LANES;
#pragma GCC unroll 12
  for (int r = 0; r < kWhole; ++r) At(to, r) = reinterpret_cast<const Loose*>(from)[r];
  memcpy(to + kWhole * LANES, from + kWhole * LANES, sizeof(float) * (D - kWhole * LANES));
}
template <int D>
inline void Load(const uint16_t* from, float* to) {
  for (int i = 0; i < D; ++i) {
    const uint32_t wide = static_cast<uint32_t>(from[i]) << 16;
    memcpy(to + i, &wide, sizeof wide);
  }
}
template <int D>
inline void Store(float* to, const float* from) {
  constexpr int kWhole = D / LANES;
#pragma GCC unroll 12
  for (int r = 0; r < kWhole; ++r) reinterpret_cast<Loose*>(to)[r] = At(from, r);
  memcpy(to + kWhole * LANES, from + kWhole * LANES, sizeof(float) * (D - kWhole * LANES));
}
template <int D>
inline void Store(uint16_t* to, const float* from) {  // round to nearest, ties to even
  for (int i = 0; i < D; ++i) {
    uint32_t wide;
    memcpy(&wide, from + i, sizeof wide);
    to[i] = static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
}

// Swap rows and columns: first the quarters of the block, then those of each quarter, and so on.
inline void Transpose(V (&m)[LANES]) {
#pragma GCC unroll 4
  for (int w = LANES / 2; w; w /= 2) {
    Whole low, high;
    for (int l = 0; l < LANES; ++l) {
      low[l] = l & w ? LANES + l - w : l;
      high[l] = l & w ? LANES + l : l + w;
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i)
      if (!(i & w)) {
        const V a = m[i], b = m[i + w];
        m[i] = __builtin_shuffle(a, b, low);
        m[i + w] = __builtin_shuffle(a, b, high);
      }
  }
}

template <int D>
struct Rows {  // a chunk of tokens; what is beyond D or beyond the last token is 0
  static constexpr int P = Padded(D);
  alignas(64) float rows[kChunk][P];
};

template <int R>
inline void AddCompensated(V* sum, V* lost, const V* x) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    const V y = x[r] - lost[r], t = sum[r] + y;
    lost[r] = (t - sum[r]) - y;
    sum[r] = t;
  }
}

template <int KEY, int VALUE, bool NORM>
struct State {  // sums of key^T value over the tokens seen and, with NORM, of the keys
  static constexpr int R = Vectors(VALUE), K = Vectors(KEY), T = Together(R);
  static constexpr int kRows = (KEY + T - 1) / T * T, kMost = kRows > Padded(KEY) ? kRows : Padded(KEY);
  struct Turned {  // [i][s], of a chunk's keys
    alignas(64) float rows[kMost][kChunk];
  };
  V sum[kRows][R], lost[kRows][R], keys[K], keys_lost[K];

  void Add(const State& other) {
    for (int i = 0; i < kRows; ++i) AddCompensated<R>(sum[i], lost[i], other.sum[i]);
    AddCompensated<K>(keys, keys_lost, other.keys);
  }

  static void Turn(const Rows<KEY>& key, Turned& turned) {
    for (int i = 0; i < Rows<KEY>::P; i += LANES)
      for (int s = 0; s < kChunk; s += LANES) {
        V block[LANES];
#pragma GCC unroll 16
        for (int t = 0; t < LANES; ++t) block[t] = At(key.rows[s + t], i / LANES);
        Transpose(block);
#pragma GCC unroll 16
        for (int t = 0; t < LANES; ++t) At(turned.rows[i + t], s / LANES) = block[t];
      }
    for (int i = Rows<KEY>::P; i < kRows; ++i) memset(turned.rows[i], 0, sizeof turned.rows[i]);
  }

  // Give the sums of a chunk's tokens, and their normalisers if NORM.
  void Give(const Rows<KEY>& query, const Turned& turned, const Rows<VALUE>& value, Rows<VALUE>& out,
            float* z) const {
    constexpr int kWide = kChunk / LANES;
    Whole place;
    for (int l = 0; l < LANES; ++l) place[l] = l;
    for (int first = 0; first < kChunk; first += T) {
      V weight[T][kWide] = {};
      for (int i = 0; i < KEY; ++i)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
          for (int c = 0; c < kWide; ++c) weight[t][c] += query.rows[first + t][i] * At(turned.rows[i], c);
      alignas(64) float weights[T][kChunk];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        V norm = {};
#pragma GCC unroll 4
        for (int c = 0; c < kWide; ++c) {
          const V seen = place + c * LANES <= first + t ? weight[t][c] : V{};
          At(weights[t], c) = seen;
          norm += seen;
        }
        if (NORM) {
#pragma GCC unroll 12
          for (int r = 0; r < K; ++r) norm += At(query.rows[first + t], r) * keys[r];
          z[first + t] = Total(norm) + kEps;
        }
      }
      V sums[T][R] = {};
      for (int s = 0; s < first + T; ++s)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 12
          for (int r = 0; r < R; ++r) sums[t][r] += weights[t][s] * At(value.rows[s], r);
      for (int i = 0; i < KEY; ++i)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 12
          for (int r = 0; r < R; ++r) sums[t][r] += query.rows[first + t][i] * sum[i][r];
      for (int t = 0; t < T; ++t)
        for (int r = 0; r < R; ++r) At(out.rows[first + t], r) = sums[t][r];
    }
  }

  // Take a chunk's tokens into the state.
  void Take(const Rows<KEY>& key, const Turned& turned, const Rows<VALUE>& value) {
    for (int first = 0; first < kRows; first += T) {
      V part[T][R] = {};
      for (int s = 0; s < kChunk; ++s)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 12
          for (int r = 0; r < R; ++r) part[t][r] += turned.rows[first + t][s] * At(value.rows[s], r);
      for (int t = 0; t < T; ++t) AddCompensated<R>(sum[first + t], lost[first + t], part[t]);
    }
    if (NORM) {
      V part[K] = {};
      for (int s = 0; s < kChunk; ++s)
        for (int r = 0; r < K; ++r) part[r] += At(key.rows[s], r);
      AddCompensated<K>(keys, keys_lost, part);
    }
  }

  void Chunk(const Rows<KEY>* query, const Rows<KEY>& key, const Rows<VALUE>& value, Rows<VALUE>& out, float* z) {
    Turned turned;
    Turn(key, turned);
    if (query) Give(*query, turned, value, out, z);
    Take(key, turned, value);
  }
};

// The tokens of one lane, a head of an item, as a walk from one end to the other sees them.
template <typename N>
struct Lane {
  const Job& job;
  int64_t lane;
  int step;

  N* Token(const Tokens& x, int64_t n) const {
    return static_cast<N*>(x.data) + lane / job.heads * x.batch + lane % job.heads * x.head + n * x.token;
  }
  int64_t Place(int64_t at) const { return step > 0 ? at : job.tokens - 1 - at; }

  template <int D, int W>
  void Read(const Tokens& x, int64_t at, int count, Rows<W>& to) const {
    for (int t = 0; t < count; ++t) Load<D>(Token(x, Place(at + t)), to.rows[t]);
    for (int t = count; t < kChunk; ++t) memset(to.rows[t], 0, sizeof to.rows[t]);
  }
  template <int D>
  void ReadPhi(const Tokens& x, int64_t at, int count, Rows<D>& to) const {
    Read<D>(x, at, count, to);
    Whole last = {};  // of the last vector, which of its numbers there are
    for (int i = 0; i < LANES; ++i) last[i] = (Vectors(D) - 1) * LANES + i < D ? -1 : 0;
    for (int t = 0; t < count; ++t) {
      for (int r = 0; r < Vectors(D); ++r) At(to.rows[t], r) = Phi(At(to.rows[t], r));
      V& end = At(to.rows[t], Vectors(D) - 1);
      end = last ? end : V{};
    }
  }
  template <int D>
  void ReadOne(const Tokens& x, int64_t at, int count, Rows<D + 1>& to) const {  // (v, 1)
    Read<D>(x, at, count, to);
    for (int t = 0; t < count; ++t) to.rows[t][D] = 1;
  }
  template <int D>
  void ReadGrad(int64_t at, int count, Rows<D>& dn, Rows<D + 1>& both) const {  // dn, and (dn, dz)
    alignas(64) float out[Padded(D)] = {};
    Read<D>(job.grad, at, count, dn);
    memset(both.rows, 0, sizeof both.rows);
    for (int t = 0; t < count; ++t) {
      const int64_t n = Place(at + t);
      Load<D>(Token(job.out, n), out);
      const float over = 1 / job.z[lane * job.tokens + n];
      V dot = {};
      for (int r = 0; r < Vectors(D); ++r) {
        At(dn.rows[t], r) *= over;
        dot += At(dn.rows[t], r) * At(out, r);
      }
      memcpy(both.rows[t], dn.rows[t], sizeof(float) * D);
      both.rows[t][D] = -Total(dot);
    }
  }
  template <int D>
  void Write(const Tokens& x, int64_t at, int count, const Rows<D>& from) const {
    for (int t = 0; t < count; ++t) Store<D>(Token(x, Place(at + t)), from.rows[t]);
  }
  template <int D>
  void WriteSloped(const Tokens& x, int64_t at, int count, Rows<D>& from, const Rows<D>& phi) const {
    for (int t = 0; t < count; ++t)  // the slope of ELU(x) + 1: 1 above 0, its own value below
      for (int r = 0; r < Vectors(D); ++r) At(from.rows[t], r) *= Min(At(phi.rows[t], r), Splat(1));
    Write<D>(x, at, count, from);
  }
};

template <typename N, int D>
struct Forward {
  static constexpr int kSign = 1;
  State<D, D, true> state;

  void Add(const Forward& other) { state.Add(other.state); }
  void Run(const Lane<N>& lane, int64_t from, int64_t to, bool give) {
    Rows<D> q, k, v = {}, out;
    float z[kChunk];
    for (int64_t at = from; at < to; at += kChunk) {
      const int count = static_cast<int>(to - at < kChunk ? to - at : kChunk);
      if (give) lane.template ReadPhi<D>(lane.job.q, at, count, q);
      lane.template ReadPhi<D>(lane.job.k, at, count, k);
      lane.template Read<D>(lane.job.v, at, count, v);
      state.Chunk(give ? &q : nullptr, k, v, out, z);
      if (!give) continue;
      for (int t = 0; t < count; ++t) {
        for (int r = 0; r < Vectors(D); ++r) At(out.rows[t], r) *= 1 / z[t];
        lane.job.z[lane.lane * lane.job.tokens + lane.Place(at + t)] = z[t];
      }
      lane.template Write<D>(lane.job.out, at, count, out);
    }
  }
};

template <typename N, int D>
struct GradQ {
  static constexpr int kSign = 1;
  State<D + 1, D, false> state;

  void Add(const GradQ& other) { state.Add(other.state); }
  void Run(const Lane<N>& lane, int64_t from, int64_t to, bool give) {
    Rows<D> q, k, dn = {}, out;
    Rows<D + 1> v = {}, both;
    for (int64_t at = from; at < to; at += kChunk) {
      const int count = static_cast<int>(to - at < kChunk ? to - at : kChunk);
      lane.template ReadPhi<D>(lane.job.k, at, count, k);
      lane.template ReadOne<D>(lane.job.v, at, count, v);
      if (give) lane.template ReadGrad<D>(at, count, dn, both);
      state.Chunk(give ? &both : nullptr, v, k, out, nullptr);
      if (!give) continue;
      lane.template ReadPhi<D>(lane.job.q, at, count, q);
      lane.template WriteSloped<D>(lane.job.dq, at, count, out, q);
    }
  }
};

template <typename N, int D>
struct GradKV {
  static constexpr int kSign = -1;
  State<D + 1, D, false> for_k;
  State<D, D, false> for_v;

  void Add(const GradKV& other) {
    for_k.Add(other.for_k);
    for_v.Add(other.for_v);
  }
  void Run(const Lane<N>& lane, int64_t from, int64_t to, bool give) {
    Rows<D> q, k, dn = {}, out;
    Rows<D + 1> v = {}, both;
    for (int64_t at = from; at < to; at += kChunk) {
      const int count = static_cast<int>(to - at < kChunk ? to - at : kChunk);
      lane.template ReadPhi<D>(lane.job.q, at, count, q);
      lane.template ReadGrad<D>(at, count, dn, both);
      if (give) {
        lane.template ReadPhi<D>(lane.job.k, at, count, k);
        lane.template ReadOne<D>(lane.job.v, at, count, v);
      }
      for_k.Chunk(give ? &v : nullptr, both, q, out, nullptr);
      if (give) lane.template WriteSloped<D>(lane.job.dk, at, count, out, k);
      for_v.Chunk(give ? &k : nullptr, q, dn, out, nullptr);
      if (give) lane.template Write<D>(lane.job.dv, at, count, out);
    }
  }
};

// All lanes of one kind of walk, shared by threads. Where there are fewer lanes than threads, lanes are cut into
// segments: a first pass gives each segment's own state, the sums of those before it are made, a second pass writes.
template <typename Kind, typename N>
struct Team {
  const Job& job;
  int64_t lanes, segments, segment;
  Kind* states;  // one a segment of a lane, or null
  bool give, failed;
  int64_t next;

  static void* Work(void* self) {
    Team& team = *static_cast<Team*>(self);
    void* room = nullptr;
    if (posix_memalign(&room, 64, sizeof(Kind))) {
      team.failed = true;
      return nullptr;
    }
    Kind& kind = *static_cast<Kind*>(room);
    for (;;) {
      const int64_t item = __atomic_fetch_add(&team.next, 1, __ATOMIC_RELAXED);
      if (item >= team.lanes * team.segments) break;
      const int64_t lane = item % team.lanes, at = item / team.lanes, from = at * team.segment;
      const int64_t to = from + team.segment < team.job.tokens ? from + team.segment : team.job.tokens;
      const int ahead = lane % team.job.heads < team.job.heads / 2 ? 1 : -1;
      const Lane<N> tokens = {team.job, lane, ahead * Kind::kSign};
      Kind* kept = team.states ? team.states + lane * team.segments + at : nullptr;
      if (kept && team.give)
        memcpy(room, kept, sizeof kind);
      else
        memset(room, 0, sizeof kind);
      kind.Run(tokens, from, to, team.give);
      if (kept && !team.give) memcpy(kept, room, sizeof kind);
    }
    free(room);
    return nullptr;
  }

  void Go() {
    pthread_t ids[256];
    int made = 0;
    next = 0;
    while (made < job.threads - 1 && made < 256 && made + 1 < lanes * segments) {
      if (pthread_create(ids + made, nullptr, Work, this)) break;
      ++made;
    }
    Work(this);
    for (int i = 0; i < made; ++i) pthread_join(ids[i], nullptr);
  }

  void SumSegments(Kind* sum, Kind* one) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      memset(static_cast<void*>(sum), 0, sizeof *sum);
      for (int64_t at = 0; at < segments; ++at) {
        Kind* kept = states + lane * segments + at;
        memcpy(static_cast<void*>(one), kept, sizeof *one);
        memcpy(static_cast<void*>(kept), sum, sizeof *sum);
        sum->Add(*one);
      }
    }
  }

  int All() {
    if (lanes < job.threads && job.tokens >= 2 * kShortest) {
      const int64_t wanted = (job.threads + lanes - 1) / lanes, most = job.tokens / kShortest;
      segments = wanted < most ? wanted : most;
      segment = (job.tokens / segments + kChunk) / kChunk * kChunk;
      segments = (job.tokens + segment - 1) / segment;
      void* room = nullptr;
      if (posix_memalign(&room, 64, sizeof(Kind) * (lanes * segments + 2))) return 2;
      states = static_cast<Kind*>(room);
      give = false;
      Go();
      SumSegments(states + lanes * segments, states + lanes * segments + 1);
    }
    give = true;
    if (!failed) Go();
    free(states);
    return failed ? 2 : 0;
  }
};

template <typename Kind, typename N>
int Run(const Job& job) {
  Team<Kind, N> team = {job, job.batch * job.heads, 1, job.tokens, nullptr, true, false, 0};
  return team.All();
}

template <typename N, int D>
int BySize(const Job& job) {
  if (!job.backward) return Run<Forward<N, D>, N>(job);
  const int done = Run<GradQ<N, D>, N>(job);
  return done ? done : Run<GradKV<N, D>, N>(job);
}

template <typename N>
int ByType(const Job& job) {
  switch (job.dim) {  // as in kernel.py
    case 8: return BySize<N, 8>(job);
    case 12: return BySize<N, 12>(job);
    case 16: return BySize<N, 16>(job);
    case 24: return BySize<N, 24>(job);
    case 32: return BySize<N, 32>(job);
    case 48: return BySize<N, 48>(job);
    default: return 1;
  }
}

}  // namespace

#define JOIN(a, b) a##b
#define NAME(isa) JOIN(attcr_run_, isa)

extern "C" int NAME(ISA)(const Job* job) { return job->bfloat16 ? ByType<uint16_t>(*job) : ByType<float>(*job); }

#endif
