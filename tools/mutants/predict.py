"""Mistakes in predict/."""

from .mutant import of

MUTANTS = [
    *of(
        "predict/predictor.py",
        ("tests/predict/test_predictor.py",),
        ("turns-do-not-come-back", "-turns, (2, 3))", "turns, (2, 3))"),
        ("flips-do-not-come-back", "views.append(back[..., ::-1] if flip else back)", "views.append(back)"),
        (
            "change-of-the-first-planes",
            "y[:, : len(residual)] += x[:, residual]",
            "y[:, : len(residual)] += x[:, : len(residual)]",
        ),
        ("four-views", "for flip in (False, True):", "for flip in (False, False):"),
        (
            "raises-all-bands",
            "np.maximum(_box_mean(y[:, :bands] - seen).min(axis=1, keepdims=True), 0)",
            "np.float32(0)",
        ),
        ("most-raised-band", "- seen).min(axis=1", "- seen).max(axis=1"),
        (
            "lifts-what-darkens",
            "np.maximum(_box_mean(y[:, :bands] - seen).min(axis=1, keepdims=True), 0)",
            "_box_mean(y[:, :bands] - seen).min(axis=1, keepdims=True)",
        ),
        ("for-all-weights", "if not spec.only_light:", "if False:"),
        ("spread-replaced", "result: Float32 = y.copy()", "result = y[:, :bands].copy()"),
        ("even-sea-is-changed", "(contrast - EVEN) / (TEXTURED - EVEN), 0, 1)", "contrast / TEXTURED, 0, 1)"),
        ("half-steps-of-texture", "EVEN, TEXTURED = 1.5 / 255, 2.5 / 255", "EVEN, TEXTURED = 1 / 255, 2 / 255"),
        ("texture-in-all-bands", ".max(axis=1, keepdims=True)", ".min(axis=1, keepdims=True)"),
        (
            "not-to-the-bit",
            "np.where(share < 1, seen + share * (lowered - seen), lowered)",
            "seen + share * (lowered - seen)",
        ),
        (
            "mean-to-one-side",
            "reach[axis] = (NEIGHBOURHOOD // 2 + 1, NEIGHBOURHOOD // 2)",
            "reach[axis] = (NEIGHBOURHOOD, 1)",
        ),
    ),
    *of(
        "predict/torch.py",
        ("tests/predict/test_torch.py",),
        (
            "switches-the-callers-module",
            "return copy.deepcopy(module).to(device, dtype).eval()",
            "return module.to(device, dtype).eval()",
        ),
        ("training-mode", "if ready and not any(part.training for part in module.modules()):", "if ready:"),
        ("rounds-what-came", "given[:, self._residual].to(y) + change", "seen[:, self._residual].to(y) + change"),
        ("one-identity-for-all-types", '"dtype": dtype,', ""),
        ("any-shape", "if tuple(y.shape) != (x.shape[0], planes, *x.shape[2:]):", "if False:"),
        ("names-do-not-count", "whole.update(name.encode())", "pass"),
        ("any-threads", "torch.set_num_threads(threads)", "pass"),
    ),
    *of(
        "predict/onnx.py",
        ("tests/predict/test_onnx.py",),
        ("any-graph", "if _bare(built) != _bare(model):", "if False:"),
        (
            "tensors-of-other-files",
            "if any(tensor.external_data or tensor.data_location for tensor in stored):",
            "if 0:",
        ),
        ("tensors-of-no-network", "    if unknown:", "    if False:"),
        ("heads-look-one-way", "[lower.T] * (heads // 2)", "[lower] * (heads // 2)"),
        ("own-chunk-twice", "_triangles(heads, GROUP, strict=True)", "_triangles(heads, GROUP)"),
        ("any-format", 'if metadata.get("format") != FORMAT:', "if False:"),
    ),
    *of(
        "predict/predictor.py",
        ("tests/predict/test_onnxruntime.py",),
        ("padding-by-zeros", 'mode="reflect"', 'mode="constant"'),
    ),
    *of(
        "predict/__init__.py",
        ("tests/predict/test_torch.py",),
        (
            "one-fast-core",
            "all(HALF_FLAGS & set(each) for each in flags)",
            "any(HALF_FLAGS & set(each) for each in flags)",
        ),
        ("auto-on-any-device", 'fast = device == "cpu" and', "fast ="),
    ),
    *of(
        "predict/openvino.py",
        ("tests/predict/test_openvino.py",),
        ("always-float32", '"INFERENCE_PRECISION_HINT": PRECISIONS[dtype]', '"INFERENCE_PRECISION_HINT": "f32"'),
        ("keys-for-values", "v=laid(both, 2 * channels, after=channels)", "v=laid(both, 2 * channels)"),
        ("tokens-of-any-length", "if any(list(each.shape) != expected or", "if any("),
        ("shapes-without-end", "list(self._compiled)[:-MOST_SHAPES]", "list(self._compiled)[:0]"),
    ),
    *of(
        "predict/export.py",
        ("tests/predict/test_export.py",),
        ("named-though-wrong", "if not error <= TOLERANCE:", "if error > TOLERANCE:"),
    ),
    *of(
        "predict/onnx.py",
        ("tests/predict/test_onnx.py",),
        ("twice-as-large", "if len(content) > MOST_BYTES:", "if len(content) > 2 * MOST_BYTES:"),
        ("norm-of-another-network", "graph.numbers(1e-5, np.float32)", "graph.numbers(1e-3, np.float32)"),
    ),
]
