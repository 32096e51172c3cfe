"""Mistakes in networks/."""

from .mutant import of

MUTANTS = [
    *of(
        "networks/attcr.py",
        ("tests/networks/test_attcr.py",),
        ("pads-left", "F.pad(x, (0, -width % 4, 0, -height % 4)", "F.pad(x, (-width % 4, 0, 0, -height % 4)"),
        ("pads-above", "F.pad(x, (0, -width % 4, 0, -height % 4)", "F.pad(x, (0, -width % 4, -height % 4, 0)"),
        ("pad-sizes-swapped", "F.pad(x, (0, -width % 4, 0, -height % 4)", "F.pad(x, (0, -height % 4, 0, -width % 4)"),
        ("pads-with-the-edge", 'mode="reflect")', 'mode="replicate")'),
        ("norm-eps", "self.bias, eps=1e-5)", "self.bias, eps=1e-6)"),
        ("gelu-by-tanh", "F.gelu(a) * b", 'F.gelu(a, approximate="tanh") * b'),
        ("gelu-of-the-other-half", "F.gelu(a) * b", "a * F.gelu(b)"),
        ("leak-before", "F.leaky_relu(self.shrink(x), 0.2)", "F.leaky_relu(self.shrink(x), 0.1)"),
        ("leak-behind", "F.leaky_relu(self.look(x), 0.2)", "F.leaky_relu(self.look(x), 0.01)"),
        ("gate-with-sigmoid", "return self.expand(x)", "return self.expand(x).sigmoid()"),
        ("hidden-rounded", "hidden = int(2.66 * channels)", "hidden = round(2.66 * channels)"),
        ("hidden-2-67", "hidden = int(2.66 * channels)", "hidden = int(2.67 * channels)"),
        ("attention-without-residual", "x = x + self.attention(self.norm1(x))", "x = self.attention(self.norm1(x))"),
        ("feed-of-the-bare-input", "self.feed(self.norm2(x))", "self.feed(x)"),
        ("norms-swapped", "x = x + self.attention(self.norm1(x))", "x = x + self.attention(self.norm2(x))"),
        ("gate-of-the-result", "y = y * self.gate(x)", "y = y * self.gate(y)"),
        ("gate-added", "y = y * self.gate(x)", "y = y + self.gate(x)"),
        ("values-first", "keys, values = scale(x).chunk(2, dim=1)", "values, keys = scale(x).chunk(2, dim=1)"),
        ("column-major", "x.permute(0, 2, 3, 1).flatten(1, 2)", "x.permute(0, 3, 2, 1).flatten(1, 2)"),
        (
            "skip-first-below",
            "F.pixel_shuffle(self.up[0](e3), 2), e2]",
            "F.pixel_shuffle(self.up[0](e3), 2), e2][::-1]",
        ),
        (
            "skip-first-on-top",
            "F.pixel_shuffle(self.up[1](self.stages[3](d2)), 2), e1]",
            "F.pixel_shuffle(self.up[1](self.stages[3](d2)), 2), e1][::-1]",
        ),
        ("cropped-from-the-other-side", "y[:, :, :height, :width]", "y[:, :, -height:, -width:]"),
        ("smallest-size", "min(x.shape[2:]) < 8", "min(x.shape[2:]) < 7"),
        ("heads-need-not-divide", "if heads < 2 or heads % 2 or channels % heads:", "if heads < 2 or heads % 2:"),
        ("odd-heads", "if heads < 2 or heads % 2 or channels % heads:", "if heads < 2 or channels % heads:"),
        ("no-heads", "if heads < 2 or heads % 2 or channels % heads:", "if heads % 2 or (heads and channels % heads):"),
        ("even-kernels", "s < 1 or s % 2 == 0 for s", "s < 1 for s"),
        ("residual-beyond", "0 <= c < self.in_channels for c", "0 <= c <= self.in_channels for c"),
        ("radar-in-the-residual", "tuple(range(2, 15))", "tuple(range(13))"),
        ("heads-of-the-paper", "heads: tuple[int, ...] = (2, 2, 8, 2, 2)", "heads: tuple[int, ...] = (2, 2, 4, 2, 2)"),
        (
            "scales-of-rice1",
            "_RICE1_SCALES = ((3, 5), (3, 5), (1, 3), (3, 5), (3, 5))",
            "_RICE1_SCALES = ((3, 5), (3, 5), (3, 1), (3, 5), (3, 5))",
        ),
    ),
]
