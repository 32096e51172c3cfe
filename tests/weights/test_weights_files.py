"""Weights files: round trips, what they say of themselves, and what is refused."""

import json
import pickle
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from benchmarks.paper.ablations import Ablation, AblationConfig

from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.errors import ConfigError, WeightsError
from attcr.files import sha256
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.weights import files, load_model, read_header, read_metadata, save_model
from attcr.weights.files import _refuse_absurd

SMALL = ATTCRConfig(dim=8, blocks=(1, 1, 1, 1, 1), heads=(2, 2, 2, 2, 2))


def test_a_saved_model_comes_back_the_same(tmp_path: Path) -> None:
    model, image = ATTCR(SMALL), torch.rand(1, 3, 16, 16)
    digest = save_model(
        model, tmp_path / "w.safetensors", spec=TRUE_COLOUR, provenance={"sensor": "rgb8", "scores": {"psnr": 1.5}}
    )
    assert digest == sha256(tmp_path / "w.safetensors")
    loaded = load_model(tmp_path / "w.safetensors")
    assert loaded.config == SMALL
    assert not loaded.training
    assert torch.equal(loaded(image), model.eval()(image))
    assert json.loads(read_metadata(tmp_path / "w.safetensors")["provenance"])["sensor"] == "rgb8"
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_half_precision_files_load_as_float32(tmp_path: Path) -> None:
    model = ATTCR(SMALL)
    save_model(model.half(), tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    assert next(load_model(tmp_path / "w.safetensors").parameters()).dtype == torch.float32


def test_a_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_model(ATTCR(SMALL), path, spec=TRUE_COLOUR)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(WeightsError, match="changed or damaged after it was saved"):
        load_model(path)


@pytest.mark.parametrize("what", ["dtype", "config", "names", "shape", "provenance"])
def test_a_changed_header_is_refused_before_a_tensor_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "w.safetensors"
    save_model(ATTCR(SMALL).half(), path, spec=TRUE_COLOUR, provenance={"score": 1})
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    first = "stages.0.0.attention.query.weight"
    if what == "dtype":
        for name in header.keys() - {"__metadata__"}:
            header[name]["dtype"] = "BF16"
    elif what == "config":
        header["__metadata__"]["config"] = header["__metadata__"]["config"].replace(
            "[2, 2, 2, 2, 2]", "[4, 4, 4, 4, 4]"
        )
    elif what == "provenance":
        header["__metadata__"]["provenance"] = "{}"
    elif what == "names":
        shape = header[first]["shape"]
        second = next(n for n in header if n not in (first, "__metadata__") and header[n]["shape"] == shape)
        header[first], header[second] = header[second], header[first]
    else:
        header[first]["shape"] = header[first]["shape"][::-1]
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + content[start:])
    monkeypatch.setattr(safetensors.torch, "load", lambda _: pytest.fail("a tensor was built"))
    with pytest.raises(WeightsError, match="changed or damaged after it was saved"):
        load_model(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_model(ATTCR(SMALL), path, spec=TRUE_COLOUR)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(WeightsError, match="damaged"):
        load_model(path)


def test_a_pickled_file_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path(tmp_path / "exploded").touch, ())  # type: ignore[return-value]

    path = tmp_path / "w.pth"
    path.write_bytes(pickle.dumps(Bomb(), protocol=2))
    with pytest.raises(WeightsError, match="a pickled file, which attcr does not load"):
        load_model(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_what_torch_saved_is_told_as_pickled(tmp_path: Path, protocol: int) -> None:
    torch.save({"x": torch.zeros(1)}, tmp_path / "new.pth")
    torch.save({"x": torch.zeros(1)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    (tmp_path / "plain.pth").write_bytes(pickle.dumps({}, protocol=protocol))
    (tmp_path / "text.pth").write_text("nothing")
    for name, message in (("new", "a pickled file"), ("old", "a pickled file"), ("plain", "a pickled file")):
        with pytest.raises(WeightsError, match=f"{message}, which"):
            load_model(tmp_path / f"{name}.pth")
    with pytest.raises(WeightsError, match="damaged, or no safetensors file"):
        load_model(tmp_path / "text.pth")


def test_a_safetensors_file_of_others_is_refused_with_the_remedy(tmp_path: Path) -> None:
    safetensors.torch.save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match=r"benchmarks\.paper convert"):
        load_model(tmp_path / "x.safetensors")


def saved(path: Path, metadata: dict[str, Any], model: ATTCR | None = None) -> Path:
    """Write a file as an earlier version, or somebody else, would: these metadata and a digest that fits them."""
    tensors = dict((model or ATTCR(SMALL)).state_dict())
    digest = files._digest_of(*files._parts(safetensors.torch.save(tensors, metadata)))
    path.write_bytes(safetensors.torch.save(tensors, {**metadata, "sha256": digest}))
    return path


def test_a_file_says_its_format_network_config_spec_and_provenance(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_model(ATTCR(SMALL), path, spec=TRUE_COLOUR, provenance={"score": 1})
    told = read_metadata(path)
    assert set(told) == {"format", "network", "config", "spec", "provenance", "sha256"}
    assert (told["format"], told["network"]) == ("attcr-2", "attcr")
    assert json.loads(told["config"]) == json.loads(json.dumps(asdict(SMALL)))
    assert InputSpec.from_json(json.loads(told["spec"])) == TRUE_COLOUR
    header = read_header(path)
    assert (header.network, header.spec, header.provenance) == ("attcr", TRUE_COLOUR, {"score": 1})
    assert header == read_header(str(path))


def test_a_network_of_another_name_comes_back_as_what_it_was(tmp_path: Path) -> None:
    config = AblationConfig(dim=8, blocks=(1, 1, 1, 1, 1), heads=(2, 2, 2, 2, 2), replacement="efficient")
    model, image = Ablation(config).eval(), torch.rand(1, 3, 16, 16)
    save_model(model, tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    loaded = load_model(tmp_path / "w.safetensors")
    assert isinstance(loaded, Ablation)
    assert torch.equal(loaded(image), model(image))


def test_a_loaded_network_keeps_its_spec_when_it_is_saved_again(tmp_path: Path) -> None:
    spec = replace(TRUE_COLOUR, removes=("thin", "shadow"))
    save_model(ATTCR(SMALL), tmp_path / "a.safetensors", spec=spec)
    save_model(load_model(tmp_path / "a.safetensors"), tmp_path / "b.safetensors")
    assert read_header(tmp_path / "b.safetensors").spec == spec
    with pytest.raises(ConfigError, match="does not say what it takes"):
        save_model(ATTCR(SMALL), tmp_path / "c.safetensors")
    assert not (tmp_path / "c.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attcr-3"}, "not saved by attcr"),
        ({"format": "attcr-1"}, "not saved by attcr"),
        ({"network": "unet"}, "of the network 'unet'; this version knows attcr"),
        ({"config": "[1]"}, "must be JSON objects"),
        ({"config": "{"}, "of another version or damaged"),
        ({"config": '{"colour": 1}'}, "config in its metadata is of another version"),
        ({"config": '{"dim": 10}'}, "multiple of 4"),
        (
            {"config": json.dumps(asdict(replace(SMALL, dim=16)))},
            r"does not fit its config: 0 .* 0 .* of another shape",
        ),
        (
            {"config": json.dumps(asdict(replace(SMALL, blocks=(1, 1, 2, 1, 1))))},
            r"config: \d\d tensors missing .* 0 unk",
        ),
        ({"config": json.dumps(asdict(replace(SMALL, gate=False)))}, r"config: 0 tensors missing \[\], \d\d unknown"),
        ({"spec": "{}"}, "of another version or damaged"),
        ({"spec": None}, "of another version or damaged"),
        ({"network": None}, "of another version or damaged"),
        ({"provenance": "1"}, "must be JSON objects"),
    ],
    ids=str,
)
def test_metadata_that_cannot_be_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save_model(ATTCR(SMALL), tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    told = {key: value for key, value in read_metadata(tmp_path / "w.safetensors").items() if key != "sha256"}
    metadata = {key: value for key, value in {**told, **change}.items() if value is not None}
    with pytest.raises(WeightsError, match=message):
        load_model(saved(tmp_path / "w.safetensors", metadata))


def test_a_header_asks_for_no_memory_before_it_is_known_to_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(ATTCR(SMALL), tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    devices = set()
    check = files.check_fit

    def watched(model: torch.nn.Module, *rest: Any) -> None:
        devices.update(parameter.device.type for parameter in model.parameters())
        check(model, *rest)

    monkeypatch.setattr(files, "check_fit", watched)
    load_model(tmp_path / "w.safetensors")
    assert devices == {"meta"}


def with_config(path: Path, **changed: object) -> Path:
    """Small weights whose config is changed, with a digest that fits."""
    save_model(ATTCR(SMALL), path, spec=TRUE_COLOUR)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    metadata = header["__metadata__"]
    if "raw" in changed:
        metadata["config"] = changed["raw"]
    else:
        metadata["config"] = json.dumps({**json.loads(metadata["config"]), **changed})
    metadata["sha256"] = files._digest_of(header, memoryview(content)[start:])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[start:])
    return path


ABSURD: dict[str, dict[str, object]] = {
    "width": {"dim": 4 * 10**6},
    "a width of 40,000": {"dim": 40_000},
    "blocks": {"blocks": [10**7] * 5},
    "blocks that could be": {"blocks": [50] * 5},
    "kernels": {"scales": [[10**9 + 1]] * 5},
    "kernels past all integers": {"scales": [[2**63 + 1]] * 5},
    "many kernels": {"scales": [[1] * 10**6] * 5},
    "channels": {"in_channels": 10**9},
    "a fraction": {"dim": 4.5},
    "infinity": {"dim": float("inf")},
    "no number": {"dim": float("nan")},
    "text": {"dim": "4"},
    "nothing": {"dim": None},
    "truth": {"heads": [True] * 5},
    "numbers for lists": {"scales": [1] * 5},
    "an unknown setting": {"evil": 1},
    "depth": {"raw": "[" * 100_000},
    "a list": {"raw": "[]"},
    "a number": {"raw": "5"},
    "digits": {"raw": '{"dim": ' + "9" * 5000 + "}"},
}


def test_an_absurd_config_is_refused_before_memory_or_time_is_taken(tmp_path: Path) -> None:
    """All of them in one process that may take 1 GiB more than it has, and a minute."""
    for number, changed in enumerate(ABSURD.values()):
        with_config(tmp_path / f"{number}.safetensors", **changed)
    code = """
import resource, sys, time
import torch, attcr, attcr.networks
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)
for path in sys.argv[1:]:
    began = time.process_time()
    try:
        attcr.load_model(path)
        print("loaded", path)
    except attcr.errors.WeightsError:
        print("refused", time.process_time() - began < 3)
"""
    paths = [tmp_path / f"{number}.safetensors" for number in range(len(ABSURD))]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["refused True"] * len(ABSURD)


@pytest.mark.parametrize("half", [False, True])
def test_loading_takes_no_more_than_three_times_the_file(tmp_path: Path, half: bool) -> None:
    path = tmp_path / "w.safetensors"
    model = ATTCR(ATTCRConfig(dim=128, blocks=(1, 2, 2, 2, 1)))
    save_model(model.half() if half else model, path, spec=TRUE_COLOUR)
    size = path.stat().st_size
    assert size > 30 << 20
    code = """
import resource, sys
import safetensors.torch, torch, attcr, attcr.networks
attcr.load_model("rgb-thin")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
attcr.load_model(sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 3 * size


def test_a_config_asks_for_no_more_of_anything_than_the_file_has_numbers() -> None:
    shapes = {"a": (10, 99), "b": (10,)}
    _refuse_absurd({"dim": 1000, "blocks": [1, 1], "kind": "x"}, shapes)
    for config, message in (
        ({"dim": 1001}, "asks for 1001 of something, and the file has 1000 numbers"),
        ({"scales": [[1, 3], [1, 1001]]}, "asks for 1001"),
        ({"blocks": [1, 2]}, "asks for 3 blocks, and the file has 2 tensors"),
        ({"heads": [1] * 103}, "more than 102 values"),
    ):
        with pytest.raises(ConfigError, match=message):
            _refuse_absurd(config, shapes)
