// Gradients of a depthwise convolution for CPUs, zero padded to the same size: plain pointers and POSIX threads, as kernel.cpp.
// hatch_build.py compiles this file once for each instruction set, and once without ISA for the function that is called.
//
// With a turned kernel, u = size - 1 - i, both gradients come from one walk over the neighbourhoods of the gradient:
//
//   dx[y, x]    = sum over u, v of g[y + u - p, x + v - p] * weight[turned u, v]
//   dweight[..] = sum over y, x of g[y + u - p, x + v - p] * x[y, x]
//
// Images are (batch, height, width, channels), dense in the last: a vector is LANES channels of a pixel. An item of work is an
// image and some channels: its rows of g, widened to floats with a rim of zeros, wait in a ring. Sums to the weights are made row by row and
// image by image, so they do not depend on the number of threads.

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

struct Image {  // strides in numbers
  void* data;
  int64_t batch, row, col;
};

struct DepthwiseJob {
  Image x, grad, dx;
  const float* weight;  // (size * size, channels)
  float* dweight;       // (size * size, channels)
  int64_t batch, height, width, channels;
  int32_t size, bfloat16, threads;
};

#ifndef ISA

#if defined(__x86_64__)
extern "C" int attcr_depthwise_avx2(const DepthwiseJob*);
extern "C" int attcr_depthwise_avx512(const DepthwiseJob*);
#elif defined(__aarch64__)
extern "C" int attcr_depthwise_neon(const DepthwiseJob*);
#endif

// 0 when done, 1 for lanes or a size that were not compiled or fewer channels than lanes, 2 without memory.
extern "C" __attribute__((visibility("default"))) int attcr_depthwise(const DepthwiseJob* job, int lanes) {
  if (job->channels < lanes) return 1;
  switch (lanes) {
#if defined(__x86_64__)
    case 8: return attcr_depthwise_avx2(job);
    case 16: return attcr_depthwise_avx512(job);
#elif defined(__aarch64__)
    case 4: return attcr_depthwise_neon(job);
#endif
    default: return 1;
  }
}

#else

namespace {

typedef float V __attribute__((vector_size(4 * LANES)));
typedef float Loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef uint16_t Half __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

constexpr int kVectors = 64 / LANES;  // of an item: whole cache lines of a pixel, in either type

inline V Load(const float* from) { return *reinterpret_cast<const Loose*>(from); }
inline V Load(const uint16_t* from) {
  const Bits wide = __builtin_convertvector(*reinterpret_cast<const Half*>(from), Bits) << 16;
  return (V)wide;
}
inline void Store(float* to, V x) { *reinterpret_cast<Loose*>(to) = x; }
inline void Store(uint16_t* to, V x) {  // round to nearest, ties to even
  Bits wide = (Bits)x;
  wide = (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;
  *reinterpret_cast<Half*>(to) = __builtin_convertvector(wide, Half);
}

template <typename N, int S>
struct Item {
  static constexpr int P = S / 2;
  const DepthwiseJob& job;
  int64_t image, first;  // the first of its vectors
  int vectors;
  V* ring;   // S rows of g, each (vectors, P + width + P)
  V* given;  // a row of x
  V* made;   // a row of dx
  V* sums;   // (S * S, vectors)

  N* Pixels(const Image& from, int64_t y, int v) const {
    return static_cast<N*>(from.data) + image * from.batch + y * from.row + Channel(v);
  }
  // The last vector ends with the last channel: some channels are then made twice, and written twice alike.
  int64_t Channel(int v) const {
    const int64_t at = (first + v) * LANES, last = job.channels - LANES;
    return at < last ? at : last;
  }
  V* Row(int64_t y, int v) const { return ring + ((y + S) % S * vectors + v) * (job.width + 2 * P); }

  void Take(int64_t y) const {
    for (int v = 0; v < vectors; ++v) {
      V* row = Row(y, v);
      if (y < 0 || y >= job.height) {
        memset(static_cast<void*>(row), 0, sizeof(V) * (job.width + 2 * P));
        continue;
      }
      const N* from = Pixels(job.grad, y, v);
      for (int x = 0; x < P; ++x) row[x] = row[P + job.width + x] = V{};
      for (int64_t x = 0; x < job.width; ++x) row[P + x] = Load(from + x * job.grad.col);
    }
  }

  // One row of the kernel, over one row of pixels.
  void Walk(const V* g, const V (&weight)[S], V* sum) const {
    V total[S] = {};
    for (int64_t x = 0; x < job.width; ++x) {
      const V seen = given[x];
      V out = made[x];
#pragma GCC unroll 5
      for (int j = 0; j < S; ++j) {
        total[j] += g[x + j] * seen;
        out += g[x + j] * weight[j];
      }
      made[x] = out;
    }
    for (int j = 0; j < S; ++j) sum[j * vectors] += total[j];
  }

  void Go() const {
    memset(static_cast<void*>(sums), 0, sizeof(V) * S * S * vectors);
    for (int64_t y = -P; y < P; ++y) Take(y);
    for (int64_t y = 0; y < job.height; ++y) {
      Take(y + P);
      for (int v = 0; v < vectors; ++v) {
        const N* from = Pixels(job.x, y, v);
        for (int64_t x = 0; x < job.width; ++x) given[x] = Load(from + x * job.x.col);
        memset(static_cast<void*>(made), 0, sizeof(V) * job.width);
        for (int i = 0; i < S; ++i) {
          V weight[S];
          for (int j = 0; j < S; ++j) weight[j] = Load(job.weight + (S * S - 1 - i * S - j) * job.channels + Channel(v));
          Walk(Row(y + i - P, v), weight, sums + i * S * vectors + v);
        }
        N* to = Pixels(job.dx, y, v);
        for (int64_t x = 0; x < job.width; ++x) Store(to + x * job.dx.col, made[x]);
      }
    }
  }
};

template <typename N, int S>
struct Team {
  const DepthwiseJob& job;
  int64_t groups;
  float* sums;  // (batch, S * S, channels)
  bool failed;
  int64_t next;

  static void* Work(void* self) {
    Team& team = *static_cast<Team*>(self);
    const DepthwiseJob& job = team.job;
    const int64_t all = (job.channels + LANES - 1) / LANES, wide = job.width + 2 * (S / 2);
    void* room = nullptr;
    if (posix_memalign(&room, 64, sizeof(V) * (S * kVectors * (wide + S) + 2 * job.width))) {
      team.failed = true;
      return nullptr;
    }
    V *ring = static_cast<V*>(room), *given = ring + S * kVectors * wide, *made = given + job.width;
    for (;;) {
      const int64_t number = __atomic_fetch_add(&team.next, 1, __ATOMIC_RELAXED);
      if (number >= job.batch * team.groups) break;
      const int64_t image = number / team.groups, first = number % team.groups * kVectors;
      const int vectors = static_cast<int>(all - first < kVectors ? all - first : kVectors);
      const Item<N, S> item = {job, image, first, vectors, ring, given, made, made + job.width};
      item.Go();
      float* to = team.sums + image * S * S * job.channels;
      for (int at = 0; at < S * S; ++at)
        for (int v = 0; v < vectors; ++v)
          Store(to + (S * S - 1 - at) * job.channels + item.Channel(v), item.sums[at * vectors + v]);
    }
    free(room);
    return nullptr;
  }

  int All() {
    const int64_t numbers = S * S * job.channels;
    void* room = nullptr;
    if (posix_memalign(&room, 64, sizeof(float) * numbers * job.batch)) return 2;
    sums = static_cast<float*>(room);
    pthread_t ids[256];
    int made = 0;
    while (made < job.threads - 1 && made < 256 && made + 1 < job.batch * groups) {
      if (pthread_create(ids + made, nullptr, Work, this)) break;
      ++made;
    }
    Work(this);
    for (int i = 0; i < made; ++i) pthread_join(ids[i], nullptr);
    for (int64_t n = 0; n < numbers; ++n) {
      float sum = 0;
      for (int64_t image = 0; image < job.batch; ++image) sum += sums[image * numbers + n];
      job.dweight[n] = sum;
    }
    free(room);
    return failed ? 2 : 0;
  }
};

template <typename N, int S>
int Run(const DepthwiseJob& job) {
  const int64_t vectors = (job.channels + LANES - 1) / LANES;
  Team<N, S> team = {job, (vectors + kVectors - 1) / kVectors, nullptr, false, 0};
  return team.All();
}

template <typename N>
int BySize(const DepthwiseJob& job) {
  switch (job.size) {  // as in compiled.py
    case 3: return Run<N, 3>(job);
    case 5: return Run<N, 5>(job);
    default: return 1;
  }
}

}  // namespace

#define JOIN(a, b) a##b
#define NAME(isa) JOIN(attcr_depthwise_, isa)

extern "C" int NAME(ISA)(const DepthwiseJob* job) { return job->bfloat16 ? BySize<uint16_t>(*job) : BySize<float>(*job); }

#endif
