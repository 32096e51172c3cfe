// Run the compiled operator on tokens from a file: test_kernel.py compiles this for machines that are only emulated.
// run_kernel IN OUT; IN is seven numbers (batch, heads, tokens, dim, bfloat16, threads, lanes), then q, k, v and grad,
// dense; OUT is the output and the gradients to q, k and v.

#include <cstdint>
#include <cstdio>
#include <vector>

struct Tokens {  // as in kernel.cpp
  void* data;
  int64_t batch, head, token;
};
struct Job {
  Tokens q, k, v, out, grad, dq, dk, dv;
  float* z;
  int64_t batch, heads, tokens;
  int32_t dim, bfloat16, threads, backward;
};
extern "C" int attcr_lanes(void);
extern "C" int attcr_run(const Job*, int lanes);

int main(int, char** names) {
  int64_t size[7];
  FILE* in = fopen(names[1], "rb");
  FILE* out = fopen(names[2], "wb");
  if (!in || !out || fread(size, sizeof size, 1, in) != 1 || size[6] != attcr_lanes()) return 3;
  const int64_t count = size[0] * size[1] * size[2] * size[3];
  const int64_t bytes = count * (size[4] ? 2 : 4);
  std::vector<char> data(8 * bytes);
  if (fread(data.data(), 4 * bytes, 1, in) != 1) return 4;
  std::vector<float> z(size[0] * size[1] * size[2]);
  auto part = [&](int at) {
    return Tokens{data.data() + at * bytes, size[1] * size[2] * size[3], size[2] * size[3], size[3]};
  };
  Job job = {part(0), part(1), part(2), part(4), part(3), part(5), part(6), part(7), z.data(), size[0], size[1], size[2],
             int32_t(size[3]), int32_t(size[4]), int32_t(size[5]), 0};
  if (attcr_run(&job, attcr_lanes())) return 5;
  job.backward = 1;
  if (attcr_run(&job, attcr_lanes())) return 6;
  return fwrite(data.data() + 4 * bytes, 4 * bytes, 1, out) != 1;
}
