"""Mistakes in weights/."""

from .mutant import of

MUTANTS = [
    *of(
        "weights/files.py",
        ("tests/weights/test_weights_files.py",),
        ("format", 'FORMAT = "attcr-2"', 'FORMAT = "attcr-3"'),
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
        ("zip-is-not-pickle", 'return start in (b"PK", ', "return start in ("),
        ("pickle-2", r'b"\x80\x02", ', ""),
        ("a-thousand-times-larger", "if largest > max(numbers, 1):", "if largest > 1000 * max(numbers, 1):"),
        ("built-before-checked", 'with torch.device("meta"):', 'with torch.device("cpu"):'),
    ),
    *of(
        "weights/table.py",
        ("tests/weights/test_table.py",),
        ("published-unchecked", " or sha256(entry.path) != entry.sha256:", ":"),
        ("correctors-restore", "if not entry.spec.corrects_references}", "}"),
        ("no-interval", 'f" [{self.low:#.4g}, {self.high:#.4g}]"', '""'),
    ),
    *of(
        "weights/hub.py",
        ("tests/weights/test_hub.py",),
        ("secret-where-none-is-given", 'f"{redact(url)}: add #sha256', 'f"{url}: add #sha256'),
        ("secret-where-it-is-no-digest", 'f"{redact(address)}: what follows', 'f"{address}: what follows'),
        ("secret-of-what-cannot-be-had", 'f"{redact(url)} cannot be fetched', 'f"{url} cannot be fetched'),
        ("secret-in-the-reason", "return hide_secrets((str(error)", "return ((str(error)"),
        ("secret-of-other-bytes", "_mismatch(redact(url), found, digest", "_mismatch(url, found, digest"),
        ("unchecked", "        if found != digest:", "        if not found:"),
        ("kept-unchecked", "if kept.is_file() and sha256(kept) == digest:", "if kept.is_file():"),
        ("capitals", "digest = digest.lower()", "digest = digest"),
        ("short-digest", r'_SHA256 = re.compile(r"[0-9a-f]{64}")', r'_SHA256 = re.compile(r"[0-9a-f]{2,64}")'),
        ("another-file", '"model.safetensors"', '"weights.safetensors"'),
        ("fetched-each-time", "if kept.is_file() and sha256(kept) == digest:", "if False:"),
    ),
]
