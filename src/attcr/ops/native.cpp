// Triangular attention as a scan, token after token; built on demand by native.py. Each lane, a head of an item, has a
// state S[i][j], the sum of phi(k)_i v_j over the tokens seen, where v has one more column of ones (the normaliser).
// q, k, v, out and their gradients are (B, heads, N, d) with a dense last dimension; z is (B, heads, N, 1), dense.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace {

typedef float V __attribute__((vector_size(64)));
typedef uint32_t Bits __attribute__((vector_size(64)));
typedef int32_t Whole __attribute__((vector_size(64)));
typedef uint16_t Half __attribute__((vector_size(32)));

constexpr float kEps = 1e-6f;  // as in naive.py
constexpr int kRun = 32;       // tokens read at once
constexpr int kLanes = 16;     // floats in a V

constexpr int Vectors(int d) { return (d + kLanes - 1) / kLanes; }

inline V Splat(float x) { return V{} + x; }
inline V Min(V a, V b) { return a < b ? a : b; }
inline V Max(V a, V b) { return a < b ? b : a; }

inline float Sum(V x) {
  float parts[kLanes];
  std::memcpy(parts, &x, sizeof parts);
#pragma GCC unroll 4
  for (int half = kLanes / 2; half; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

inline V Exp(V x) {  // of -87 <= x <= 0: 2^n times a polynomial on |r| <= ln(2) / 2
  const V n = (x * 1.44269504f + 12582912.f) - 12582912.f;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = Splat(1.f / 720);
  for (float c : {1.f / 120, 1.f / 24, 1.f / 6, 0.5f, 1.f, 1.f}) p = p * r + c;
  return p * (V)((__builtin_convertvector(n, Whole) + 127) << 23);
}

inline V Phi(V x) {  // ELU(x) + 1; NaN stays NaN
  const V low = Exp(Max(Min(x, V{}), Splat(-87))), high = Max(x, V{});
  return x == x ? low + high : x;
}

// Reading and computing are passes of their own: what was just written in pieces is slow to read as one vector.
template <int D>
inline void Load(const float* from, V* to) {
  std::memcpy(to, from, sizeof(float) * D);
}
template <int D>
inline void Load(const at::BFloat16* from, V* to) {
  uint16_t raw[D];
  uint32_t wide[D];
  std::memcpy(raw, from, sizeof raw);
  for (int i = 0; i < D; ++i) wide[i] = static_cast<uint32_t>(raw[i]) << 16;
  std::memcpy(to, wide, sizeof wide);
}

template <int D>
inline void Store(float* to, const V* from) {
  std::memcpy(to, from, sizeof(float) * D);
}
template <int D>
inline void Store(at::BFloat16* to, const V* from) {  // round to nearest, ties to even
  Half raw[Vectors(D)];
  for (int r = 0; r < Vectors(D); ++r) {
    const Bits bits = (Bits)from[r];
    raw[r] = __builtin_convertvector((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, Half);
  }
  std::memcpy(to, raw, sizeof(uint16_t) * D);
}

template <typename T>
struct Tokens {
  T* data;
  int64_t batch, head, token;
  explicit Tokens(const at::Tensor& x)
      : data(x.data_ptr<T>()), batch(x.stride(0)), head(x.stride(1)), token(x.stride(2)) {}
  T* At(int64_t b, int64_t h, int64_t n) const { return data + b * batch + h * head + n * token; }
};

template <int R>
struct Rows {  // a run of tokens
  V rows[kRun][R];
  float One(int t, int i) const { return reinterpret_cast<const float*>(rows[t])[i]; }
  void SetOne(int t, int i, float x) { reinterpret_cast<float*>(rows[t])[i] = x; }
  template <int D, typename T>
  void Read(const Tokens<T>& from, int64_t b, int64_t h, int64_t first, int count, int step) {
    for (int t = 0; t < count; ++t) Load<D>(from.At(b, h, first + t * step), rows[t]);
  }
  void TakePhi(const Rows& from, int count) {
    for (int t = 0; t < count; ++t)
      for (int r = 0; r < R; ++r) rows[t][r] = Phi(from.rows[t][r]);
  }
};

// Token after token: add `seen` to each row of the state, times the row's factor, then sum the rows by their weights.
template <int COUNT, int R, int A, int B>
inline void Scan(V (&kept)[COUNT][R], const Rows<R>& seen, const Rows<A>& factors, const Rows<B>& weights, int count,
                 Rows<R>& sums) {
  V state[COUNT][R];  // small ones stay in registers
#pragma GCC unroll 64
  for (int i = 0; i < COUNT; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) state[i][r] = kept[i][r];
  for (int t = 0; t < count; ++t) {
    V sum[2][R] = {}, row[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) row[r] = seen.rows[t][r];
#pragma GCC unroll 64
    for (int i = 0; i < COUNT; ++i) {
      const V factor = Splat(factors.One(t, i)), weight = Splat(weights.One(t, i));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        state[i][r] += factor * row[r];
        sum[i & 1][r] += weight * state[i][r];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums.rows[t][r] = sum[0][r] + sum[1][r];
  }
#pragma GCC unroll 64
  for (int i = 0; i < COUNT; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) kept[i][r] = state[i][r];
}

// Call `run(first, count)` for runs of tokens from one end to the other.
template <typename F>
inline void Walk(int64_t tokens, int step, const F& run) {
  for (int64_t done = 0; done < tokens; done += kRun)
    run(step > 0 ? done : tokens - 1 - done, static_cast<int>(std::min<int64_t>(kRun, tokens - done)));
}

template <typename T, int D>
void Forward(const at::Tensor& q_, const at::Tensor& k_, const at::Tensor& v_, const at::Tensor& out_,
             const at::Tensor& z_) {
  constexpr int W = Vectors(D + 1), P = Vectors(D);
  const Tokens<T> q(q_), k(k_), v(v_), out(out_);
  const int64_t heads = q_.size(1), tokens = q_.size(2);
  float* z = z_.data_ptr<float>();
  at::parallel_for(0, q_.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    Rows<P> raw_q = {}, raw_k = {}, qs, ks;
    Rows<W> vs = {}, sums;
    for (int t = 0; t < kRun; ++t) vs.SetOne(t, D, 1);
    for (int64_t lane = begin; lane < end; ++lane) {
      const int64_t b = lane / heads, h = lane % heads;
      const int step = h < heads / 2 ? 1 : -1;
      V state[D][W] = {};
      Walk(tokens, step, [&](int64_t first, int count) {
        raw_q.template Read<D>(q, b, h, first, count, step);
        raw_k.template Read<D>(k, b, h, first, count, step);
        vs.template Read<D>(v, b, h, first, count, step);
        qs.TakePhi(raw_q, count);
        ks.TakePhi(raw_k, count);
        Scan(state, vs, ks, qs, count, sums);
        for (int t = 0; t < count; ++t) {
          const int64_t n = first + t * step;
          const float norm = sums.One(t, D) + kEps;
          for (int r = 0; r < P; ++r) sums.rows[t][r] *= 1 / norm;
          Store<D>(out.At(b, h, n), sums.rows[t]);
          z[lane * tokens + n] = norm;
        }
      });
    }
  });
}

// The formulas are those of chunked.py's backward.
template <typename T, int D>
void Backward(const at::Tensor& grad_, const at::Tensor& q_, const at::Tensor& k_, const at::Tensor& v_,
              const at::Tensor& out_, const at::Tensor& z_, const at::Tensor& dq_, const at::Tensor& dk_,
              const at::Tensor& dv_) {
  constexpr int W = Vectors(D + 1), P = Vectors(D);
  const Tokens<T> grad(grad_), q(q_), k(k_), v(v_), out(out_), dq(dq_), dk(dk_), dv(dv_);
  const int64_t heads = q_.size(1), tokens = q_.size(2);
  const float* z = z_.data_ptr<float>();
  at::parallel_for(0, q_.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    Rows<P> raw_q = {}, raw_k = {}, qs, ks, sums;
    Rows<W> vs = {}, ns = {}, wide_sums;
    Rows<P> grads = {}, outs = {};
    for (int t = 0; t < kRun; ++t) vs.SetOne(t, D, 1);
    for (int64_t lane = begin; lane < end; ++lane) {
      const int64_t b = lane / heads, h = lane % heads;
      const int step = h < heads / 2 ? 1 : -1;
      // phi of q and k, v with its one, dn = grad / z with dz = -dn . out in the place of the one
      const auto read = [&](int64_t first, int count, int walk) {
        raw_q.template Read<D>(q, b, h, first, count, walk);
        raw_k.template Read<D>(k, b, h, first, count, walk);
        vs.template Read<D>(v, b, h, first, count, walk);
        grads.template Read<D>(grad, b, h, first, count, walk);
        outs.template Read<D>(out, b, h, first, count, walk);
        qs.TakePhi(raw_q, count);
        ks.TakePhi(raw_k, count);
        for (int t = 0; t < count; ++t) {
          const float over = 1 / z[lane * tokens + first + t * walk];
          V dot = {};
          for (int r = 0; r < P; ++r) {
            ns.rows[t][r] = grads.rows[t][r] * over;
            dot += ns.rows[t][r] * outs.rows[t][r];
          }
          ns.SetOne(t, D, -Sum(dot));
        }
      };
      // Store `sums`, times the slope of ELU(x) + 1: 1 above 0, its own value below.
      const auto give = [&](const Tokens<T>& to, const Rows<P>& phi, int64_t first, int count, int walk) {
        for (int t = 0; t < count; ++t) {
          for (int r = 0; r < P; ++r) sums.rows[t][r] *= Min(phi.rows[t][r], Splat(1));
          Store<D>(to.At(b, h, first + t * walk), sums.rows[t]);
        }
      };
      V seen[D + 1][P] = {};  // [j][i], j over v and its one, i over phi(k)
      Walk(tokens, step, [&](int64_t first, int count) {
        read(first, count, step);
        Scan(seen, ks, vs, ns, count, sums);
        give(dq, qs, first, count, step);
      });
      V seers[D + 1][P] = {}, turned[D][W] = {};  // [j][i] and [i][j], i over phi(q), j over dn and dz
      Walk(tokens, -step, [&](int64_t first, int count) {
        read(first, count, -step);
        Scan(seers, qs, ns, vs, count, sums);
        give(dk, ks, first, count, -step);
        Scan(turned, ns, qs, ks, count, wide_sums);
        for (int t = 0; t < count; ++t) Store<D>(dv.At(b, h, first - t * step), wide_sums.rows[t]);
      });
    }
  });
}

void Check(std::initializer_list<const at::Tensor*> tokens, const at::Tensor& z) {
  const at::Tensor& q = **tokens.begin();
  for (const at::Tensor* x : tokens)
    TORCH_CHECK(x->sizes() == q.sizes() && x->scalar_type() == q.scalar_type() && x->stride(3) == 1,
                "tokens must be of one shape and type, dense in the last dimension");
  TORCH_CHECK(z.is_contiguous() && z.numel() * q.size(3) == q.numel() && z.scalar_type() == at::kFloat,
              "z must be one dense float32 a token");
}

template <typename F>
void Dispatch(const at::Tensor& q, const F& call) {  // head sizes as in native.py
  const auto by_size = [&](auto type) {
    switch (q.size(3)) {
      case 8: return call(type, std::integral_constant<int, 8>());
      case 12: return call(type, std::integral_constant<int, 12>());
      case 16: return call(type, std::integral_constant<int, 16>());
      case 24: return call(type, std::integral_constant<int, 24>());
      case 32: return call(type, std::integral_constant<int, 32>());
      case 48: return call(type, std::integral_constant<int, 48>());
      default: TORCH_CHECK(false, "heads of ", q.size(3), " numbers were not compiled");
    }
  };
  if (q.scalar_type() == at::kBFloat16) return by_size(at::BFloat16());
  by_size(float());
}

void scan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& z) {
  Check({&q, &k, &v, &out}, z);
  Dispatch(q, [&](auto type, auto size) { Forward<decltype(type), decltype(size)::value>(q, k, v, out, z); });
}

void scan_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& out, const at::Tensor& z, const at::Tensor& dq, const at::Tensor& dk,
                   const at::Tensor& dv) {
  Check({&q, &k, &v, &out, &grad, &dq, &dk, &dv}, z);
  Dispatch(q, [&](auto type, auto size) {
    Backward<decltype(type), decltype(size)::value>(grad, q, k, v, out, z, dq, dk, dv);
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(attcr, m) {
  m.def("scan(Tensor q, Tensor k, Tensor v, Tensor(a!) out, Tensor(b!) z) -> ()");
  m.def(
      "scan_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor z, Tensor(a!) dq, Tensor(b!) dk, "
      "Tensor(c!) dv) -> ()");
}

TORCH_LIBRARY_IMPL(attcr, CPU, m) {
  m.impl("scan", &scan);
  m.impl("scan_backward", &scan_backward);
}
