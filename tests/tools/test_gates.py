"""Gates are traced as the network uses them, and drawn the same each time."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.paper.ablations import AblationConfig
from benchmarks.paper.official import convert_official
from PIL import Image
from tools.figures import gates
from tools.figures.gates import GateTrace, StageGate, draw_gates, save_one_channel, trace_files, trace_gates

from attcr.bands.spec import RICE2, SEN12MSCR, TRUE_COLOUR, InputSpec
from attcr.data.pairs import read_image
from attcr.errors import ConfigError, DataError
from attcr.networks import build_network
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.weights import save_model
from fakes import fake_image

TINY = {"dim": 8, "blocks": (1, 2, 1, 1, 1), "heads": (2, 2, 4, 2, 2)}


@pytest.fixture
def model() -> ATTCR:
    torch.manual_seed(0)
    return with_spec(ATTCR(ATTCRConfig(**TINY)).eval())  # type: ignore[arg-type]


def with_spec(model: ATTCR, spec: InputSpec = TRUE_COLOUR) -> ATTCR:
    model.spec = spec  # type: ignore[assignment]
    return model


def stage_gate(gate: np.ndarray, brightness: np.ndarray) -> StageGate:
    return StageGate(2, gate, np.ones_like(gate), brightness)


@pytest.mark.parametrize("scales", [ATTCRConfig().scales, ((3,),) * 5])
@pytest.mark.parametrize("replacement", [None, "swin"])
def test_a_trace_holds_what_the_network_multiplied(
    scales: tuple[tuple[int, ...], ...], replacement: str | None
) -> None:
    torch.manual_seed(0)
    settings = {**TINY, "scales": scales}
    config = AblationConfig(**settings, replacement="swin") if replacement else ATTCRConfig(**settings)  # type: ignore[arg-type]
    model = build_network(config).eval()
    assert isinstance(model, ATTCR)
    with_spec(model)
    into_out: list[torch.Tensor] = []
    hooks = [
        list(stage.children())[-1].attention.out.register_forward_pre_hook(lambda _, args: into_out.append(args[0][0]))  # type: ignore[union-attr]
        for stage in model.stages
    ]
    image = torch.rand(3, 37, 50)
    trace = trace_gates(model, image)
    for hook in hooks:
        hook.remove()
    sizes = [(40, 52), (20, 26), (10, 13), (20, 26), (40, 52)]  # the network pads to multiples of 4
    for number, (stage, expected, size) in enumerate(zip(trace.stages, into_out, sizes, strict=True), 1):
        assert stage.stage == number
        assert stage.gate.shape == stage.before.shape == (config.channels[number - 1], *size)
        assert stage.brightness.shape == size
        torch.testing.assert_close(torch.from_numpy(stage.after), expected)
    with torch.no_grad():
        np.testing.assert_array_equal(trace.restored, model(image[None])[0].numpy())
    assert not any(module._forward_hooks for module in model.modules())


def test_brightness_is_the_mean_of_the_restored_bands(model: ATTCR) -> None:
    image = torch.rand(3, 32, 32)
    third = trace_gates(model, image).stages[2].brightness
    np.testing.assert_allclose(third, image.mean(0).reshape(8, 4, 8, 4).mean((1, 3)).numpy(), rtol=1e-5)


def test_correlation_tells_what_follows_the_brightness() -> None:
    light = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
    stage = stage_gate(np.stack([light, 3 - 2 * light, np.full_like(light, 0.7), -1 - light]), light)
    np.testing.assert_allclose(stage.correlation, [1, -1, 0, -1], atol=1e-6)
    np.testing.assert_allclose(stage.size_correlation, [1, -1, 0, 1], atol=1e-6)  # -1 - light passes more where bright
    assert stage.summary()["share_negative"] == 0.25


def test_the_one_channel_is_the_one_that_holds_back_what_is_bright_in_all_images(tmp_path: Path) -> None:
    light = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
    image = np.zeros((3, 12, 16), np.float32)
    traces = {}
    for name, swap in (("a", 1), ("b", -1)):  # channel 0 holds back in one image only, channel 1 in both
        gates = stage_gate(np.stack([2 - swap * light, 2 - light + 0.3 * light[::-1], 2 + light]), light)
        traces[name] = GateTrace(image, image, (gates, gates), TRUE_COLOUR)
    assert save_one_channel(tmp_path / "one.png", traces) == 1


def test_the_command_writes_the_figures_and_the_numbers(
    model: ATTCR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(model, tmp_path / "w.safetensors")
    Image.fromarray(fake_image("a")).save(tmp_path / "a.png")
    asked = [tmp_path / "a.png", "--weights", tmp_path / "w.safetensors", "--out", tmp_path / "out"]
    monkeypatch.setattr("sys.argv", ["gates", *map(str, asked)])
    gates.main()
    names = ["a-before-after.png", "a-channels.png", "distributions.png", "gates.json", "stage-2-channel.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert len(capsys.readouterr().out.splitlines()) == len(names)
    for path in (tmp_path / "out").glob("*.png"):
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 10  # something was drawn
    numbers = json.loads((tmp_path / "out" / "gates.json").read_text())
    gate = trace_files(model, [tmp_path / "a.png"])["a"].stages[1].gate
    assert numbers["images"]["a"][1]["mean"] == pytest.approx(float(gate.mean()), abs=1e-6)
    assert numbers["images"]["a"][1]["channels"] == len(gate) == 16


@pytest.mark.nightly
def test_figures_are_the_same_each_time(model: ATTCR, tmp_path: Path) -> None:
    Image.fromarray(fake_image("a")).save(tmp_path / "a.png")
    traces = trace_files(model, [tmp_path / "a.png"])
    first, second = (draw_gates(traces, tmp_path / name) for name in ("first", "second"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_what_cannot_be_drawn_is_refused(model: ATTCR, tmp_path: Path) -> None:
    ungated = ATTCR(ATTCRConfig(**TINY, gate=False))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="without a gate"):
        trace_gates(ungated, torch.rand(3, 16, 16))
    with pytest.raises(ConfigError, match="same name"):
        trace_files(model, [tmp_path / "a" / "x.png", tmp_path / "b" / "x.png"])
    Image.fromarray(fake_image("x")).save(tmp_path / "x.png")
    radar = ATTCR(ATTCRConfig(**{**ATTCRConfig.preset("sen12mscr").__dict__, **TINY}))
    with pytest.raises(ConfigError, match="does not say what it takes"):
        trace_files(radar, [tmp_path / "x.png"])
    with pytest.raises(DataError, match=r"3 bands of uint8.*take 15 \(sar:vv sar:vh coastal"):
        trace_files(with_spec(radar, SEN12MSCR), [tmp_path / "x.png"])


def test_brightness_and_picture_are_of_the_bands_and_not_of_the_radar() -> None:
    torch.manual_seed(0)
    model = with_spec(ATTCR(ATTCRConfig(**{**ATTCRConfig.preset("sen12mscr").__dict__, **TINY})), SEN12MSCR)
    image = torch.rand(15, 16, 16)
    trace = trace_gates(model, image)
    np.testing.assert_allclose(trace.stages[0].brightness, image[2:].mean(0).numpy(), rtol=1e-5)
    assert trace.cloudy.shape == trace.restored.shape == (13, 16, 16)
    shown = np.clip(image[[5, 4, 3]].numpy() / 5 / 0.3558, 0, 1).transpose(1, 2, 0)
    np.testing.assert_allclose(trace.picture(trace.cloudy), shown, rtol=1e-6)


def test_trained_gates_tell_cloud_from_ground(shared: Path, shared_data: Path, tmp_path: Path) -> None:
    source = shared / "weights" / "rice2-dim24-629steps.safetensors"
    trained = convert_official(source, tmp_path / "w.safetensors", spec=RICE2)
    image = torch.from_numpy(read_image(shared_data / "rice2" / "cloud" / "232.webp")[:, ::2, ::2] / np.float32(255))
    second = trace_gates(trained, image).stages[1]
    assert second.size_correlation.min() < -0.8
    assert second.size_correlation.max() > 0.8
