"""The mutants: small mistakes, one line each, that the tests must notice. `mutate.py` plants them.

Each is a mistake that one could make: a wrong sign, an end one off, a swapped order, a missing clip. It names the
tests that should see it, the likeliest first. Changes that make no difference are not mistakes and not here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    id: str
    """The file without its ending, a colon, and a few words."""
    file: str
    """Where it is made, below src/attcr."""
    old: str
    """Text that is there exactly once."""
    new: str
    """What takes its place."""
    tests: tuple[str, ...]
    """Files of tests, or single ones (FILE::NAME), the likeliest to notice it first."""


def of(file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> list[Mutant]:
    """Give the mutants of one file; a change is (a few words, old, new)."""
    place = file.removesuffix(".py")
    return [Mutant(f"{place}:{words}", file, old, new, tests) for words, old, new in changes]


SENSORS = of(
    "sensors.py",
    ("tests/test_sensors.py", "tests/test_products.py", "tests/test_spec.py"),
    ("zero-offset-sign", "_column(self.range.low) - self.offset", "_column(self.range.low) + self.offset"),
    ("unit-without-span", "spread / self.range.span / self.scale", "spread / self.scale"),
    ("unit-without-low", "_column(self.range.high) - _column(self.range.low)", "_column(self.range.high)"),
    (
        "unit-rounds-to-whole",
        "np.round(spread / self.range.span / self.scale, 6)",
        "np.round(spread / self.range.span / self.scale, 0)",
    ),
    ("zero-rounds-to-whole", "- self.offset) / self.scale, 6)", "- self.offset) / self.scale, 0)"),
    ("float32-for-all", "working = np.result_type(values.dtype, np.float32)", "working = np.dtype(np.float32)"),
    ("top-without-zero", "top = (self.zero + self.unit * self.range.span)", "top = (self.unit * self.range.span)"),
    ("top-without-span", "top = (self.zero + self.unit * self.range.span)", "top = (self.zero + self.unit)"),
    ("no-clip", "np.clip(values.astype(working), zero, top)", "values.astype(working)"),
    ("no-clip-below", "np.clip(values.astype(working), zero, top)", "np.minimum(values.astype(working), top)"),
    ("from-model-without-zero", "x.astype(np.float64) * self.unit + self.zero", "x.astype(np.float64) * self.unit"),
    ("reflectance-offset-sign", "* self.scale + self.offset, dtype", "* self.scale - self.offset, dtype"),
    ("band-takes-the-first-range", "numbers[i if len(numbers) > 1 else 0]", "numbers[0]"),
    ("truncates", "np.clip(np.rint(values), info.min, info.max)", "np.clip(np.trunc(values), info.min, info.max)"),
    ("no-hold", "np.clip(np.rint(values), info.min, info.max)", "np.rint(values)"),
    ("unsigned-only", 'if dtype.kind in "iu":', 'if dtype.kind in "u":'),
    ("n0400-is-another-product", 'self.name.removesuffix("-n0400")', "self.name"),
    ("unknown-is-a-picture", "PICTURE.name if self.picture else REFLECTANCE.name", "REFLECTANCE.name"),
    ("free-with-ranges", "free = not self.bands and wanted == 1", "free = not self.bands"),
    ("two-dimensions", "if values.ndim != 3 or", "if values.ndim < 2 or"),
    ("l1c-offset", 'name="s2-l1c-n0400", offset=-0.1', 'name="s2-l1c-n0400", offset=-0.01'),
    ("l2a-offset", 'name="s2-l2a-n0400", offset=-0.1', 'name="s2-l2a-n0400", offset=0.1'),
    ("landsat-l1-scale", "LANDSAT_BANDS, 2e-5, -0.1, 0", "LANDSAT_BANDS, 2.75e-5, -0.1, 0"),
    ("landsat-l2-offset", "scale=2.75e-5, offset=-0.2", "scale=2.75e-5, offset=-0.1"),
    ("landsat-nodata", "2e-5, -0.1, 0, LANDSAT_COMMON", "2e-5, -0.1, None, LANDSAT_COMMON"),
    ("tm-common-names", "common=LANDSAT_COMMON[1:]", "common=LANDSAT_COMMON[:-1]"),
    ("l2a-keeps-b10", 'if band != "B10")', 'if band != "B09")'),
    ("wavelengths-swapped", "842.0, 865.0, 945.0", "865.0, 842.0, 945.0"),
    ("picture-white", "RGB, 1 / 255, 0.0", "RGB, 1 / 256, 0.0"),
    ("radar-range", "ModelRange((-25.0, -35.0), (0.0, 0.0), 2.0)", "ModelRange((-25.0, -25.0), (0.0, 0.0), 2.0)"),
    ("counted-one-byte", 'kind.kind == "f" or kind.itemsize == 1', 'kind.kind == "f"'),
    ("counted-not-tm", "S2_L2A_BANDS, LANDSAT_BANDS, LANDSAT_TM_BANDS)", "S2_L2A_BANDS, LANDSAT_BANDS)"),
    ("picture-unchecked", "(REFLECTANCE.name, PICTURE.name) and top > 10", "(REFLECTANCE.name,) and top > 10"),
    ("top-at-10", "and top > 10:", "and top >= 10:"),
    ("bytes-at-255", "if counted and top <= 255", "if counted and top < 255"),
    ("bytes-at-256", "if counted and top <= 255", "if counted and top <= 256"),
    ("largest-value", "np.percentile(seen, 99.9)", "np.percentile(seen, 100)"),
    ("invalid-counts", "seen = values[valid]", "seen = values"),
    ("half-below-0", "sensor.offset < 0)) > 0.5", "sensor.offset < 0)) >= 0.5"),
)

PRODUCTS = of(
    "products.py",
    ("tests/test_products.py", "tests/test_spec.py"),
    ("baseline-after-0400", "int(baseline) >= 400", "int(baseline) > 400"),
    ("offset-applied-ignored", ' and hints.get("offset_applied") != "true"', ""),
    ("offset-applied-said-false", 'hints.get("offset_applied") != "true"', 'hints.get("offset_applied") is None'),
    ("levels-swapped", 'if level == "1C":', 'if level == "2A":'),
    ("level-case", "[-2:].upper()", "[-2:]"),
    ("floats-unknown", 'if kind == "f":', 'if kind == "c":'),
    ("offset-tag-ignored", "scale=scales[0], offset=offsets[0])", "scale=scales[0])"),
    ("scale-tags-ignored", "set(scales) != {1.0} and", "False and"),
    ("offsets-may-differ", "and len(set(offsets)) == 1:", ":"),
    ("scales-may-differ", "len(set(scales)) == 1 and ", ""),
    ("product-forgotten", "base = product or replace", "base = replace"),
    ("landsat-tag-ignored", "hints.get('LANDSAT_PRODUCT_ID', '')", "''"),
    ("uri-ignored", "hints.get('PRODUCT_URI', '')", "''"),
    ("collection-1", r"_\d{6}_\d{8}_\d{8}_02_", r"_\d{6}_\d{8}_\d{8}_0"),
    ("landsat-9-is-old", 'landsat.group(1) in "89"', 'landsat.group(1) in "8"'),
    ("landsat-levels-swapped", 'landsat.group(2) == "1" else', 'landsat.group(2) == "2" else'),
    ("radiance-is-reflectance", 'if landsat and landsat.group(2) == "2":', "if landsat:"),
    ("oli-alone", "L[COTEM]0", "L[CTEM]0"),
    ("one-missing-is-left-out", "return None if None in found else", "return"),
    ("names-of-the-product-always", "if not any(names) and len(names)", "if len(names)"),
    ("names-of-the-product-too-few", "and len(names) == len(sensor.bands)", ""),
    ("numbers-from-0", "return int(wanted) - 1 if 1 <= int(wanted)", "return int(wanted) if 1 <= int(wanted)"),
    ("number-0", "if 1 <= int(wanted) <= len(names)", "if 0 <= int(wanted) <= len(names)"),
    ("number-beyond", "<= int(wanted) <= len(names)", "<= int(wanted) <= len(names) + 1"),
    ("b8a-is-b8", 'return f"b{number.group(1)}{number.group(2)}"', 'return f"b{number.group(1)}"'),
    ("sr-prefix", '.lower().removeprefix("sr_")', ".lower()"),
    ("leading-zero", r'r"b0*(\d+)(a?)"', r'r"b(\d+)(a?)"'),
    ("key-case", "[0].lower().removeprefix", "[0].removeprefix"),
    ("words-after-the-name", r're.split(r"[ ,]", name.strip())[0]', "name.strip()"),
    ("spaces-before", "name.strip())[0]", "name)[0]"),
    ("common-of-landsat", 'full[common].add(f"SR_{band}")', 'full[common].add(f"{band}")'),
    ("unknown-product-guesses-always", "if found is None and not sensor.bands:", "if found is None:"),
    ("words-of-the-band-ignored", "    if told:", "    if False:"),
    ("long-numbers", r"(?<!\d)(\d{3,4}", r"(\d{3,4}"),
    ("wavelength-of-others", "    if sensor.bands:", "    if False:"),
    ("own-decimals", r"(?:\.\d+)?) ?nm", r")(?:\.\d+)? ?nm"),
)

SPEC = of(
    "spec.py",
    ("tests/test_spec.py",),
    ("visible-reach", "VISIBLE_RANGE, BEYOND_RANGE = 25.0, 60.0", "VISIBLE_RANGE, BEYOND_RANGE = 20.0, 60.0"),
    ("beyond-reach", "VISIBLE_RANGE, BEYOND_RANGE = 25.0, 60.0", "VISIBLE_RANGE, BEYOND_RANGE = 25.0, 80.0"),
    ("reach-open", "if nm <= reach and at not in places", "if nm < reach and at not in places"),
    ("band-twice", "if nm <= reach and at not in places", "if nm <= reach"),
    ("farthest", "min(near, key=lambda at: apart[at]", "max(near, key=lambda at: apart[at]"),
    ("first-within-reach", "key=lambda at: apart[at], default", "default"),
    ("wavelength-before-name", "if places[i] is not None or slot.wavelength is None:", "if slot.wavelength is None:"),
    ("visible-at-1000", "if slot.wavelength < 1000 else", "if slot.wavelength <= 1000 else"),
    ("own-range-ignored", "        if sensor.wanted is not None:", "        if False:"),
    ("picture-by-reflectance", "        if sensor.picture:", "        if False:"),
    ("picture-span", "ModelRange((0.0,), (1.0,), self.span)", "ModelRange((0.0,), (1.0,), 1.0)"),
    (
        "first-range-for-all",
        "if all((slot.low, slot.high) == (first.low, first.high)",
        "if all((first.low, first.high) == (first.low, first.high)",
    ),
    ("low-alone-compared", "if all((slot.low, slot.high) == (first.low, first.high)", "if all(slot.low == first.low"),
    ("fit-ignores-slots", "slots = self.bands if slots is None else slots", "slots = self.bands"),
    (
        "radar-span-of-bands",
        "each = ModelRange(tuple(slot.low for slot in slots), tuple(slot.high for slot in slots), slots[0].span)",
        "each = ModelRange(tuple(slot.low for slot in slots), tuple(slot.high for slot in slots), self.span)",
    ),
    ("span-of-the-radar", "return self.bands[0].span", "return self.slots[0].span"),
    ("product-unchecked", "if sensor.product not in self.products:", "if False:"),
    ("product-by-full-name", "if sensor.product not in self.products:", "if sensor.name not in self.products:"),
    ("optional-required", "if at is None and not slot.optional]", "if at is None]"),
    ("nothing-needed", "if missing or all(at is None for at in places):", "if missing:"),
    ("by-position-any-count", "for slot in self.bands) and len(names) == len(self.bands):", "for slot in self.bands):"),
    ("count-unchecked", "if len(asked) != len(wanted):", "if len(asked) > len(wanted):"),
    ("twenty-names", "if len(names) > 20 else", "if len(names) >= 20 else"),
    ("kind-after-the-colon", 'self.name.partition(":")[0] if', 'self.name.partition(":")[2] if'),
    ("slot-names-twice", "if len(set(names)) < len(names) or not names:", "if not names:"),
    ("outputs-any-slot", "not set(self.outputs) <= set(bands)", "not set(self.outputs) <= set(names)"),
    ("outputs-twice", " or len(set(self.outputs)) < len(self.outputs):", ":"),
    ("gsd-0", "not 0 < self.gsd[0] <= self.gsd[1]", "not 0 <= self.gsd[0] <= self.gsd[1]"),
    ("flat-range", "if any(slot.high <= slot.low or", "if any(slot.high < slot.low or"),
    ("span-0", "or slot.span <= 0 for", "or slot.span < 0 for"),
    ("removes-nothing", "if not self.removes or not set", "if not set"),
    ("json-lists", "tuple(it) if isinstance(it, list) else it", "it"),
    ("white", "PICTURE_WHITE = 0.3558", "PICTURE_WHITE = 0.3568"),
    ("rice2-order", 'slots=band_slots(("swir16", "nir08", "red"))', 'slots=band_slots(("red", "nir08", "swir16"))'),
    ("sen12mscr-span", "*band_slots(S2_COMMON, span=5.0)", "*band_slots(S2_COMMON, span=2.0)"),
)

NAIVE = of(
    "ops/naive.py",
    ("tests/ops/test_naive.py", "tests/ops/test_eps.py"),
    ("eps", "EPS = 1e-6", "EPS = 1e-5"),
    ("no-eps", "(weights.sum(-1, keepdim=True) + EPS)", "weights.sum(-1, keepdim=True)"),
    ("directions-swapped", "ones.tril() if head < heads // 2", "ones.triu() if head >= heads // 2"),
    ("all-look-back", "else ones.triu() for head", "else ones.tril() for head"),
    ("half-one-off", "if head < heads // 2", "if head <= heads // 2"),
    ("not-itself", "ones.tril() if", "ones.tril(-1) if"),
    (
        "relu",
        "phi_q, phi_k = elu(q.to(wide)) + 1, elu(k.to(wide)) + 1",
        "phi_q, phi_k = q.to(wide).relu() + 1, k.to(wide).relu() + 1",
    ),
    ("phi-without-1", "elu(k.to(wide)) + 1", "elu(k.to(wide))"),
    ("narrow", "wide = torch.promote_types(q.dtype, torch.float32)", "wide = q.dtype"),
)

CHUNKED = of(
    "ops/chunked.py",
    (
        "tests/ops/test_eps.py",
        "tests/ops/test_chunked.py::test_several_blocks_equal_the_definition",
        "tests/ops/test_chunked.py::test_items_taken_together_or_apart_equal_the_definition",
        "tests/ops/test_chunked.py::test_gradients_pass_gradcheck",
        "tests/ops/test_chunked.py::test_stretches_chained_by_their_carry_give_the_whole",
        "tests/ops/test_chunked.py::test_a_call_in_inference_mode_leaves_nothing_behind",
        "tests/ops/test_chunked.py::test_output_and_gradients_equal_the_definition",
    ),
    ("no-eps", "z.add_(EPS)", "z.add_(0)"),
    ("eps-twice", "z.add_(EPS)", "z.add_(2 * EPS)"),
    (
        "chunk-sees-itself-twice",
        "torch.stack([ones.tril(-1), ones.triu(1)])",
        "torch.stack([ones.tril(), ones.triu(1)])",
    ),
    (
        "triangles-swapped",
        "torch.stack([ones.tril(), ones.triu()]).unsqueeze(1)",
        "torch.stack([ones.triu(), ones.tril()]).unsqueeze(1)",
    ),
    ("not-mirrored", "reversed(ahead.split(self.block, 2))", "ahead.split(self.block, 2)"),
    (
        "rest-of-the-wrong-step",
        "steps[0] = (steps[0][0], ahead[:, :, : self.rest])",
        "steps[-1] = (steps[-1][0], ahead[:, :, : self.rest])",
    ),
    ("tails-kept", "        tail.zero_()", "        pass"),
    ("tails-only-ahead", "                steps[-1].append(back[:, :, self.rest :])", "                pass"),
    (
        "carry-from-the-wrong-end",
        "steps.step_on(kv, before, carry_lanes, (-1, 0))",
        "steps.step_on(kv, before, carry_lanes, (0, -1))",
    ),
    (
        "backward-carry-end",
        "steps.step_on(qn, after, carry_lanes, (0, -1))",
        "steps.step_on(qn, after, carry_lanes, (-1, 0))",
    ),
    ("backward-in-order", "for step in reversed(range(steps.count)):", "for step in range(steps.count):"),
    ("dz-sign", "out=dn[..., dim]).neg_()", "out=dn[..., dim])"),
    ("slope-above-1", "dphi.mul_(phi.clamp_(max=1))", "dphi.mul_(phi)"),
    ("carry-kept-between-items", "        carry_lanes.zero_()", "        pass"),
    (
        "inference-buffer",
        "with torch.inference_mode(False):",
        "with torch.inference_mode(torch.is_inference_mode_enabled()):",
    ),
    ("buffer-of-another-type", " or buffer.dtype != _wide(like)", ""),
    ("buffer-too-small", " or buffer.numel() < sum(sizes):", ":"),
    ("width-without-ones", "return dim // 8 * 8 + 8", "return (dim + 7) // 8 * 8"),
    ("positive-part-lost", "torch.clamp(source, min=0, out=rest)", "rest.zero_()"),
    ("after-is-before", "self._after = self._before.mT", "self._after = self._before"),
)

NETWORK = of(
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
    ("skip-first-below", "F.pixel_shuffle(self.up[0](e3), 2), e2]", "F.pixel_shuffle(self.up[0](e3), 2), e2][::-1]"),
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
)

WEIGHTS = of(
    "weights.py",
    ("tests/test_weights.py",),
    ("format", 'FORMAT = "attcr-2"', 'FORMAT = "attcr-3"'),
    ("old-format-unknown", "known = (FORMAT, FORMAT_WITHOUT_SPEC)", "known = (FORMAT,)"),
    (
        "digest-without-metadata",
        'json.dumps({**header, "__metadata__": metadata}, sort_keys=True)',
        'json.dumps({**header, "__metadata__": {}}, sort_keys=True)',
    ),
    (
        "digest-without-header",
        "digest = hashlib.sha256(json.dumps(",
        "digest = hashlib.sha256() or hashlib.sha256(json.dumps(",
    ),
    ("digest-without-data", "    digest.update(data)", "    digest.update(data[:0])"),
    ("digest-unchecked", 'if _digest_of(header, data) != header["__metadata__"]["sha256"]:', "if False:"),
    ("published-unchecked", " or sha256(entry.path) != entry.sha256:", ":"),
    ("training-mode", "return model.eval()", "return model"),
    ("spec-forgotten", "    model.spec = told.spec", "    model.spec = None"),
    ("own-spec-unused", 'spec = spec or getattr(model, "spec", None)', "spec = spec or None"),
    ("shapes-unchecked", "if missing or unknown or wrong:", "if missing or unknown:"),
    ("missing-unchecked", "if missing or unknown or wrong:", "if unknown or wrong:"),
    ("network-unchecked", "if told.network not in NETWORKS:", "if False:"),
    ("provenance-lost", "json.dumps(dict(provenance or {}))", "json.dumps({})"),
    (
        "provenance-may-be-anything",
        "not isinstance(config, dict) or not isinstance(provenance, dict)",
        "not isinstance(config, dict)",
    ),
    ("radar-forgotten", "return SEN12MSCR_OPTICAL if inputs == outputs else SEN12MSCR", "return SEN12MSCR_OPTICAL"),
    ("radar-always", "inputs in (outputs, outputs + 2)", "inputs in (outputs, outputs + 1)"),
    ("bands-from-0", "for number in range(1, inputs + 1))", "for number in range(inputs))"),
    ("bands-of-reflectance-1", "band_slots(names, high=TRUE_COLOUR.slots[0].high)", "band_slots(names)"),
    ("extra-inputs-taken", "    if inputs != outputs:", "    if inputs < outputs:"),
    ("zip-is-not-pickle", 'return start in (b"PK", ', "return start in ("),
    ("pickle-2", r'b"\x80\x02", ', ""),
    ("built-before-checked", 'with torch.device("meta"):', 'with torch.device("cpu"):'),
)

HUB = of(
    "hub.py",
    ("tests/test_hub.py",),
    ("secret-where-none-is-given", 'f"{redact(url)}: add #sha256', 'f"{url}: add #sha256'),
    ("secret-where-it-is-no-digest", 'f"{redact(address)}: what follows', 'f"{address}: what follows'),
    ("secret-of-what-cannot-be-had", 'f"{redact(url)} cannot be fetched', 'f"{url} cannot be fetched'),
    ("secret-in-the-reason", "lambda url: redact(url[0]), line)", "lambda url: url[0], line)"),
    ("secret-of-other-bytes", "_check(new, digest, redact(url))", "_check(new, digest, url)"),
    ("unchecked", "    if found != due:", "    if not found:"),
    ("kept-unchecked", "_check(kept, digest, redact(url))", "pass"),
    ("capitals", "digest = digest.lower()", "digest = digest"),
    ("short-digest", r'_SHA256 = re.compile(r"[0-9a-f]{64}")', r'_SHA256 = re.compile(r"[0-9a-f]{2,64}")'),
    ("another-file", '"model.safetensors"', '"weights.safetensors"'),
    ("fetched-each-time", "if not kept.is_file():", "if True:"),
)

TILES = of(
    "scenes/tiles.py",
    ("tests/scenes/test_tiles.py",),
    ("last-tile-lost", "return (0, *inner, last) if last else (0,)", "return (0, *inner) if last else (0,)"),
    ("stride-without-overlap", "_starts(length, tile, tile - overlap, origin)", "_starts(length, tile, tile, origin)"),
    ("origin-added", "range(stride - origin, last, stride)", "range(stride + origin, last, stride)"),
    ("origin-ignored", "range(stride - origin, last, stride)", "range(stride, last, stride)"),
    (
        "tile-beyond-the-scene",
        "Grid(height, width, min(tile, height), min(tile, width)",
        "Grid(height, width, tile, min(tile, width)",
    ),
    (
        "rows-and-columns-swapped",
        "return slice(self.col, self.col + self.width)",
        "return slice(self.col, self.col + self.height)",
    ),
    ("overlap-above-half", "if not 0 <= overlap <= tile // 2:", "if not 0 <= overlap <= tile // 2 + 1:"),
    ("overlap-below-half", "if not 0 <= overlap <= tile // 2:", "if not 0 <= overlap < tile // 2:"),
    ("tile-of-8", "if tile < 8:", "if tile <= 8:"),
    ("tile-of-7", "if tile < 8:", "if tile < 7:"),
    ("origin-of-a-stride", "if not 0 <= origin < tile - overlap:", "if not 0 <= origin <= tile - overlap:"),
    ("empty-scene", "if height < 1 or width < 1:", "if height < 1:"),
)

BLEND = of(
    "scenes/blend.py",
    ("tests/scenes/test_blend.py",),
    ("half-a-pixel", "np.arange(size)[::-1]) + 0.5", "np.arange(size)[::-1]) + 1"),
    ("ramp-of-half-the-overlap", "np.clip(distance / overlap, 0, 1)", "np.clip(2 * distance / overlap, 0, 1)"),
    ("no-ramp", "np.clip(distance / overlap, 0, 1) if overlap", "np.clip(distance / overlap, 1, 1) if overlap"),
    ("straight-ramp", "window = np.sin(ramp * np.pi / 2) ** 2", "window = ramp"),
    ("sine-ramp", "window = np.sin(ramp * np.pi / 2) ** 2", "window = np.sin(ramp * np.pi / 2)"),
    ("not-normalised", "window / total[start : start + size] for", "window for"),
    ("weights-swapped", "values * (down * across)", "values * down"),
    ("start-keeps-earlier-rows", "        self._sum[:] = 0", "        self._sum[:] *= 1"),
    ("start-at-the-top", "        self._top = row", "        self._top = 0"),
    ("rows-not-moved-up", "self._sum[:, : self._sum.shape[1] - done] = self._sum[:, done:]", "pass"),
    ("rows-not-cleared", "self._sum[:, self._sum.shape[1] - done :] = 0", "pass"),
)

PROTOCOLS = of(
    "protocols.py",
    ("tests/test_protocols.py",),
    (
        "psnr-of-10",
        "20 * np.log10(peak) - 10 * torch.log10(squared)",
        "10 * np.log10(peak) - 10 * torch.log10(squared)",
    ),
    (
        "psnr-per-band",
        "squared = (predicted.double() - reference.double()).square().mean()",
        "squared = (predicted.double() - reference.double()).square().mean((1, 2)).median()",
    ),
    ("mae-is-mse", ".abs().mean())", ".square().mean())"),
    ("rmse-without-root", ".square().mean().sqrt())", ".square().mean())"),
    ("radians", "torch.rad2deg(torch.acos(cosine.clamp(-1, 1))).mean()", "torch.acos(cosine.clamp(-1, 1)).mean()"),
    ("angle-unclamped", "cosine.clamp(-1, 1)", "cosine"),
    ("ssim-sigma", "(2 * 1.5**2))", "(2 * 1.6**2))"),
    ("ssim-c1", "c1, c2 = 0.01**2, 0.03**2", "c1, c2 = 0.02**2, 0.03**2"),
    ("ssim-c2", "c1, c2 = 0.01**2, 0.03**2", "c1, c2 = 0.01**2, 0.02**2"),
    (
        "ssim-mirrored",
        'correlate1d(image, window, axis=1, mode="constant")',
        'correlate1d(image, window, axis=1, mode="mirror")',
    ),
    (
        "centre-of-att-cr",
        "zero_padded_ssim(predicted, reference, centre=5.5)",
        "zero_padded_ssim(predicted, reference, centre=5)",
    ),
    (
        "centre-of-uncrtaints",
        "zero_padded_ssim(predicted, reference, centre=5)",
        "zero_padded_ssim(predicted, reference, centre=5.5)",
    ),
    (
        "att-cr-unclamped",
        "return _like_att_cr(predicted.clamp(0, 1), reference)",
        "return _like_att_cr(predicted, reference)",
    ),
    ("sample-covariance", "use_sample_covariance=False", "use_sample_covariance=True"),
    ("uniform-peak", "uniform_ssim(predicted, reference, peak=1)", "uniform_ssim(predicted, reference, peak=2)"),
    ("luma-weights", "[65.481, 128.553, 24.966]", "[65.481, 128.553, 25.966]"),
    ("luma-from-0", "/ 255 + 16).round()", "/ 255).round()"),
    ("luma-not-8-bit", "(image.double().clamp(0, 1) * 255).round()", "(image.double().clamp(0, 1) * 255)"),
    ("half-rounds", ".clamp(0, 255).floor()", ".clamp(0, 255).round()"),
    ("half-mirrored-otherwise", 'mode="symmetric"', 'mode="reflect"'),
    ("half-aliased", 'mode="bicubic", antialias=True', 'mode="bicubic", antialias=False'),
    ("half-grey", "[0.298912, 0.586611, 0.114478]", "[0.298912, 0.114478, 0.586611]"),
    ("aca-window", "resized[:, 64:192, 64:192]", "resized[:, 60:188, 64:192]"),
    ("aca-nearest", 'mode="bilinear", antialias=True', 'mode="bilinear", antialias=False'),
    ("standard-peak", "peak_signal_noise_ratio(p, r, data_range=1.0)", "peak_signal_noise_ratio(p, r, data_range=2.0)"),
    ("nan-in-the-mean", "known = values[~np.isnan(values)]", "known = values"),
    ("smallest", "SMALLEST = 16", "SMALLEST = 15"),
    ("smallest-open", "if min(height, width) < SMALLEST:", "if min(height, width) <= SMALLEST:"),
    ("reference-unchecked", '("prediction", predicted), ("reference", reference))', '("prediction", predicted),)'),
    ("infinite-scored", "if not torch.isfinite(image).all():", "if torch.isnan(image).any():"),
    ("rgb-unchecked", "if self.rgb_only and bands != 3:", "if False:"),
    ("sam-is-better-higher", '_SAM = Metric("SAM", "deg", False, 3)', '_SAM = Metric("SAM", "deg", True, 3)'),
)

MUTANTS: tuple[Mutant, ...] = (
    *SENSORS, *PRODUCTS, *SPEC, *NAIVE, *CHUNKED, *NETWORK, *WEIGHTS, *HUB, *TILES, *BLEND, *PROTOCOLS,
)  # fmt: skip
"""All of them."""
