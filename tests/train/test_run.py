"""Whole runs through the command line: recipes, exact resume, two processes, checkpoints that survive."""

import json
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import killers
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tools.s2_thin.samples import SPEC

import attcr
from attcr.bands.spec import OTHER_DATES, SEN12MSCR, TRUE_COLOUR
from attcr.data import DATASETS
from attcr.data.splits import load_split
from attcr.errors import ConfigError
from attcr.train.run import WholeCheckpointIO, train
from attcr.weights import load_model, read_header, read_metadata
from fake_scenes import UTM, make, read
from fakes import fake_patch, link_pairs, make_clear_s2, make_gaps, make_pairs, make_sen12mscr, write_tif

ROOT = Path(__file__).parents[2]
TINY = [
    "--model.config.dim=8",
    "--model.config.blocks=[1,1,1,1,1]",
    "--model.config.heads=[2,2,2,2,2]",
    "--data.workers=0",
    "--trainer.accelerator=cpu",
    "--trainer.num_sanity_val_steps=0",
    "--trainer.enable_progress_bar=false",
    "--trainer.log_every_n_steps=1",
]
PAIRS = ['--data.sources=[{dataset: pairs, root: ".", hold_out: [v]}]', "--data.crop=16", "--data.batch_size=2"]
pytestmark = pytest.mark.filterwarnings(
    "ignore::rasterio.errors.NotGeoreferencedWarning",
    "ignore::UserWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    make_pairs(tmp_path / "pairs", ("cloudy", "clear"), [f"t{i}" for i in range(11)] + ["v0", "v1"])
    return tmp_path / "pairs"


def start(*args: str, threads: int = 1) -> subprocess.CompletedProcess[str]:
    """`attcr train` as a process of its own."""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "attcr", "train", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def commands_in(page: Path) -> list[str]:
    """The training commands of a page, but for those of a shell function."""
    text = page.read_text().replace("\\\n", " ")
    return [command for command in re.findall(r"attcr train --config [^`\n#]+", text) if "$" not in command]


def run_args(pairs: Path, out: Path, steps: int) -> list[str]:
    return [
        *("--config", "rice2", *TINY, *PAIRS, f"--data.root={pairs}", f"--trainer.default_root_dir={out}"),
        *(f"--trainer.max_steps={steps}", f"--trainer.val_check_interval={steps}"),
    ]


@pytest.mark.parametrize("recipe", ["rice1", "rice2", "tcloud", "small-cpu", "rice2-small"])
def test_every_recipe_of_pictures_takes_two_steps(recipe: str, tmp_path: Path) -> None:
    dataset = "rice2" if recipe in ("small-cpu", "rice2-small") else recipe
    folders = ("cloud", "reference" if dataset == "tcloud" else "label")
    names = [*load_split(dataset, "train").names, *load_split(dataset, "val").names]
    link_pairs(tmp_path / dataset, folders, names)
    train(
        [
            *("--config", recipe, *TINY, f"--data.root={tmp_path}", "--data.crop={0: 8, 1: 16}", "--data.batch_size=2"),
            *("--data.val_crop=16", "--data.val_count=2", "--trainer.max_steps=2", "--trainer.val_check_interval=2"),
            *("--data.cache=false", f"--trainer.default_root_dir={tmp_path / 'run'}"),
        ]
    )
    model = load_model(tmp_path / "run" / "weights.safetensors")
    assert model.config.dim == 8
    assert model.spec == DATASETS[dataset].spec
    provenance = json.loads(read_metadata(tmp_path / "run" / "weights.safetensors")["provenance"])
    assert provenance["steps"] == 2
    assert provenance["data"][0]["train_split_sha256"] == load_split(dataset, "train").sha256
    assert provenance["validation"]["val_psnr"] > 0
    assert "sha256" in (tmp_path / "run" / "model-card.md").read_text()
    assert (tmp_path / "run" / "panels" / "step000002.png").exists()


def test_the_sen12mscr_recipe_takes_two_steps(tmp_path: Path) -> None:
    sources = {kind: tmp_path / f"{kind}.tif" for kind in ("s1", "s2_cloudy", "s2")}
    for seed, (kind, file) in enumerate(sources.items()):
        write_tif(file, fake_patch(kind, seed, size=16))
    regions = [region for part in ("train", "val", "test") for region in load_split("sen12mscr", part).names]
    make_sen12mscr(tmp_path / "sen12mscr", dict.fromkeys(regions, (1,)), sources)
    train(
        [
            *("--config", "sen12mscr", *TINY, f"--data.root={tmp_path}", "--data.batch_size=2", "--data.val_count=2"),
            *(
                "--trainer.max_steps=2",
                "--trainer.val_check_interval=2",
                f"--trainer.default_root_dir={tmp_path / 'run'}",
            ),
        ]
    )
    model = load_model(tmp_path / "run" / "weights.safetensors")
    assert model.config.out_channels == 13
    assert model.spec == SEN12MSCR
    provenance = json.loads(read_metadata(tmp_path / "run" / "weights.safetensors")["provenance"])
    assert provenance["protocol"] == ["att-cr-sen12"]
    assert provenance["validation"]["val_psnr"] > 0


def test_the_rgb_thin_recipe_takes_two_steps(tmp_path: Path) -> None:
    names = [f"{tile}_R027_{i}" for tile in ("T12TUR", "T22MCT", "T50JML") for i in range(2)]
    make_pairs(tmp_path, ("unused", "clear_s2_rgb"), names)
    train(
        [
            *("--config", "rgb-thin", *TINY, f"--data.root={tmp_path}", "--data.crop={0: 8, 1: 16}"),
            *("--data.crop_cycle=2", "--model.optimizer=muon"),
            "--data.val_count=2",
            *("--trainer.max_steps=2", "--trainer.val_check_interval=2", "--data.cache=false"),
            f"--trainer.default_root_dir={tmp_path / 'run'}",
        ]
    )
    provenance = json.loads(read_metadata(tmp_path / "run" / "weights.safetensors")["provenance"])
    assert provenance["data"] == [{"dataset": "simulated", "weight": 1.0, "hold_out": ["T22MCT", "T50JML"]}]
    assert (provenance["crop"], provenance["crop_cycle"]) == ({"0": 8, "1": 16}, 2)
    assert provenance["optimizer"] == "muon"
    assert load_model(tmp_path / "run" / "weights.safetensors").spec == TRUE_COLOUR


def test_published_weights_learn_from_pairs_of_ones_own_with_one_command(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), [f"s{i:02}" for i in range(12)])
    train(
        [
            *("--config", "finetune", f"--data.root={tmp_path}", "--model.start_from=rgb-thin"),
            *("--data.crop=16", "--data.workers=0", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"),
            *("--trainer.max_steps=2", "--trainer.val_check_interval=2"),
            f"--trainer.default_root_dir={tmp_path / 'run'}",
        ]
    )
    made, before = load_model(tmp_path / "run" / "weights.safetensors"), load_model("rgb-thin")
    assert made.config == before.config
    changed = [float((a - b).abs().max()) for a, b in zip(made.parameters(), before.parameters(), strict=True)]
    assert 0 < max(changed) < 0.01
    provenance = json.loads(read_metadata(tmp_path / "run" / "weights.safetensors")["provenance"])
    assert provenance["start_from"] == "rgb-thin"
    assert provenance["data"][0]["hold_out"] == "the last tenth by name"


def test_weights_of_other_bands_are_refused_before_the_first_step(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), [f"s{i:02}" for i in range(12)])
    with pytest.raises(ConfigError, match=r"takes 27 planes and gives 26, and the data has 3 \(red green blue\) and 3"):
        train(
            [
                *("--config", "finetune", f"--data.root={tmp_path}", "--model.start_from=s2-thin"),
                *("--data.crop=16", "--data.workers=0", "--trainer.accelerator=cpu"),
                f"--trainer.default_root_dir={tmp_path / 'run'}",
            ]
        )


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="rice1, rice2, rice2-small, s2-dates, s2-thin, sen12mscr, small-cpu"):
        train(["--config", "rice3"])


def make_data(recipe: str, root: Path) -> None:
    """The data of a recipe that weights were published from, with few and small images."""
    if recipe == "rice2-small":
        names = [*load_split("rice2", "train").names, *load_split("rice2", "val").names]
        link_pairs(root / "rice2", ("cloud", "label"), names)
    elif recipe == "rgb-thin":
        names = [f"{tile}_R027_{i}" for tile in ("T12TUR", "T22MCT", "T50JML") for i in range(3)]
        make_pairs(root, ("unused", "clear_s2_rgb"), names)
    else:
        (make_clear_s2 if recipe == "s2-thin" else make_gaps)(root)


@pytest.mark.parametrize(
    "recipe",
    ["rgb-thin", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("rice2-small", "s2-thin", "s2-dates"))],
)
def test_a_broken_run_of_each_published_recipe_resumes_to_the_same_bits(recipe: str, tmp_path: Path) -> None:
    make_data(recipe, tmp_path / "data")
    sizes = ["--data.crop={0: 8, 1: 16, 2: 24}", "--data.batch_size={0: 3, 1: 2, 2: 1}", "--data.crop_cycle=4"]
    settings = ["--config", recipe, *TINY, *sizes, f"--data.root={tmp_path / 'data'}", "--data.cache=false"]
    settings += ["--data.val_count=1", "--trainer.max_steps=12", "--trainer.val_check_interval=6"]
    saving = ["--trainer.callbacks+=ModelCheckpoint", f"--trainer.callbacks.dirpath={tmp_path / 'saved'}"]
    saving += ["--trainer.callbacks.every_n_train_steps=7", "--trainer.callbacks.filename={step}"]
    breaking = ["--trainer.callbacks+=killers.BreakAt", "--trainer.callbacks.step=9"]
    whole, broken = ([*settings, f"--trainer.default_root_dir={tmp_path / name}"] for name in ("whole", "broken"))
    train(whole)
    with pytest.raises(killers.BrokenError):
        train([*broken, *saving, *breaking])
    assert not (tmp_path / "broken" / "weights.safetensors").exists()
    torch.manual_seed(99)
    train([*broken, f"--ckpt_path={tmp_path / 'saved' / 'step=7.ckpt'}"])
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.nightly
def test_a_killed_run_resumes_to_the_same_bits(pairs: Path, tmp_path: Path) -> None:
    saving = ["--trainer.callbacks+=ModelCheckpoint", f"--trainer.callbacks.dirpath={tmp_path / 'saved'}"]
    saving += ["--trainer.callbacks.every_n_train_steps=5", "--trainer.callbacks.filename={step}"]
    killing = ["--trainer.callbacks+=killers.KillAt", "--trainer.callbacks.step=8"]
    killed = start(*run_args(pairs, tmp_path / "killed", 12), *saving, *killing)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not (tmp_path / "killed" / "weights.safetensors").exists()
    resumed = start(*run_args(pairs, tmp_path / "killed", 12), f"--ckpt_path={tmp_path / 'saved' / 'step=5.ckpt'}")
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert "not resumable" not in resumed.stderr
    whole = start(*run_args(pairs, tmp_path / "whole", 12))
    assert whole.returncode == 0, whole.stderr[-2000:]
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(first[name], second[name]) for name in first)


COMMANDS = [
    (page, command)
    for page in ("docs/results/s2-thin.md", "docs/results/rgb-thin.md", "docs/engineering/log.md",
        "docs/results/dates.md", "docs/guides/train.md", "tools/s2_thin/README.md", "tools/dates_net/README.md")
    for command in commands_in(ROOT / page)
]  # fmt: skip


def test_pages_say_how_each_published_network_is_trained() -> None:
    named = {re.search(r"--config (\S+)", command)[1] for _, command in COMMANDS}  # type: ignore[index]
    assert {"s2-thin", "s2-dates", "rgb-thin", "rice2-small", "small-cpu"} <= named


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_each_training_command_of_the_pages_is_understood(
    page: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        train([*shlex.split(command)[2:], "--print_config"])
    assert ended.value.code == 0
    assert "sources:" in capsys.readouterr().out


@pytest.mark.parametrize(("recipe", "planes"), [("s2-thin", 27), ("s2-dates", 55)])
def test_the_recipes_of_many_bands_learn_and_expect_their_error(recipe: str, planes: int, tmp_path: Path) -> None:
    make_data(recipe, tmp_path / "data")
    train(
        [
            *("--config", recipe, *TINY, f"--data.root={tmp_path / 'data'}", "--data.crop={0: 16, 1: 24}"),
            *("--data.batch_size={0: 3, 1: 1}", "--data.crop_cycle=2", "--data.val_count=2"),
            *("--trainer.max_steps=4", "--trainer.val_check_interval=4"),
            f"--trainer.default_root_dir={tmp_path / 'run'}",
        ]
    )
    header = read_header(tmp_path / "run" / "weights.safetensors")
    model = load_model(tmp_path / "run" / "weights.safetensors")
    assert (model.config.in_channels, model.config.out_channels) == (planes, 26)
    assert header.spec == (OTHER_DATES if recipe == "s2-dates" else SPEC)
    told = header.provenance
    assert told["batch"] == {"0": 3, "1": 1}
    assert told["loss"]["likelihood"] == (0.1 if recipe == "s2-dates" else 0.03)
    assert told["data"] == [{"dataset": "other-dates" if recipe == "s2-dates" else "clear-s2", "weight": 1.0}]
    assert told["protocol"] == ["error-left"]
    assert 0 < told["validation"]["val_error_left"] < 30
    assert (tmp_path / "run" / "panels" / "step000004.png").exists()


def test_an_untrained_s2_dates_leaves_the_regression_as_it_is(tmp_path: Path) -> None:
    make_data("s2-dates", tmp_path / "data")
    still = ["--model.lr=1e-30", "--model.min_lr=0", "--trainer.max_steps=1", "--trainer.val_check_interval=1"]
    still += ["--data.crop=16", "--data.batch_size=1", "--data.crop_cycle=null"]
    run = ["--config", "s2-dates", *TINY, *still, f"--data.root={tmp_path / 'data'}"]
    train([*run, f"--trainer.default_root_dir={tmp_path / 'run'}"])
    told = read_header(tmp_path / "run" / "weights.safetensors").provenance
    assert told["validation"]["val_error_left"] == 1.0


def test_weights_of_s2_thin_restore_a_scene_of_four_bands(tmp_path: Path) -> None:
    make_data("s2-thin", tmp_path / "data")
    sizes = ["--data.crop=16", "--data.batch_size=2", "--data.crop_cycle=null", "--data.val_count=1"]
    steps = ["--trainer.max_steps=1", "--trainer.val_check_interval=1", f"--trainer.default_root_dir={tmp_path}"]
    train(["--config", "s2-thin", *TINY, *sizes, *steps, f"--data.root={tmp_path / 'data'}"])

    def name(file: object) -> None:
        file.descriptions = ("B02", "B03", "B04", "B08")  # type: ignore[attr-defined]

    values = np.random.default_rng(1).integers(300, 3000, (4, 40, 48)).astype(np.uint16)
    scene = make(tmp_path / "scene.tif", values, name, **UTM)
    options = attcr.RestoreOptions(sensor="s2-l2a", mask="none")
    done = attcr.restore_scene(scene, tmp_path / "clear.tif", str(tmp_path / "weights.safetensors"), options=options)
    restored, spread = read(tmp_path / "clear.tif"), read(done.spread)
    assert restored.shape == values.shape
    assert (restored != values).mean() > 0.5
    assert np.isfinite(spread).all()
    assert (spread > 0).mean() > 0.5


def test_a_loss_that_does_not_fit_the_data_is_refused(tmp_path: Path, pairs: Path) -> None:
    make_data("s2-thin", tmp_path / "data")
    with pytest.raises(ConfigError, match=r"--model\.spread is for data of which the error is learned too"):
        train(["--config", "s2-thin", *TINY, "--model.spread=null", f"--data.root={tmp_path / 'data'}"])
    with pytest.raises(ConfigError, match=r"--model\.spread is for data of which the error is learned too"):
        train([*run_args(pairs, tmp_path / "run", 2), "--model.spread={likelihood: 0.1}"])
    for wrong in (["--data.crop=null", "--data.crop_cycle=null"], ["--data.shrinks=[1,2]"], ["--data.clear_share=0.1"]):
        with pytest.raises(ConfigError, match="CLEAR_S2 is drawn at the size of crop"):
            train(["--config", "s2-thin", *TINY, *wrong, f"--data.root={tmp_path / 'data'}"])


@pytest.mark.nightly
def test_two_processes_learn_what_one_with_twice_the_batch_learns(pairs: Path, tmp_path: Path) -> None:
    one = start(*run_args(pairs, tmp_path / "one", 20), "--data.batch_size=4")
    assert one.returncode == 0, one.stderr[-2000:]
    two = start(*run_args(pairs, tmp_path / "two", 20), "--trainer.strategy=ddp", "--trainer.devices=2")
    assert two.returncode == 0, two.stderr[-2000:]
    first, second = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5


def save_on_a_full_disk(path: Path) -> None:
    io = WholeCheckpointIO()
    io.save_checkpoint({"x": torch.ones(1000)}, path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # what a disk with no room answers
    with pytest.raises((OSError, RuntimeError)):
        io.save_checkpoint({"x": torch.zeros(1_000_000)}, path)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    process = get_context("fork").Process(target=save_on_a_full_disk, args=(path,))  # the limit is a process's
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert torch.equal(torch.load(path, weights_only=True)["x"], torch.ones(1000))
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.nightly
def test_a_kill_during_a_write_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    code = (
        "import itertools, sys, torch\n"
        "from attcr.train.run import WholeCheckpointIO\n"
        "for n in itertools.count():\n"
        "    WholeCheckpointIO().save_checkpoint({'n': n, 'x': torch.full((2_000_000,), float(n))}, sys.argv[1])\n"
        "    print(n, flush=True)\n"
    )
    path, chance = tmp_path / "last.ckpt", random.Random(0)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
        saved = torch.load(path, weights_only=True)
        assert (saved["x"] == saved["n"]).all()
    WholeCheckpointIO().save_checkpoint({"n": -1}, path)
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


def test_clear_and_simulated_pairs_can_be_mixed(tmp_path: Path) -> None:
    make_pairs(tmp_path / "a", ("cloudy", "clear"), ["t0", "t1", "v0"])
    make_pairs(tmp_path / "b", ("unused", "."), ["t0", "t1", "v0"])
    sources = "[{dataset: pairs, root: a, hold_out: [v]}, {dataset: simulated, root: b, hold_out: [v], weight: 2}]"
    train(
        [
            *("--config", "rice2", *TINY, f"--data.sources={sources}", f"--data.root={tmp_path}", "--data.crop=16"),
            *(
                "--data.batch_size=2",
                "--data.clear_share=0.5",
                "--trainer.max_steps=2",
                "--trainer.val_check_interval=2",
            ),
            f"--trainer.default_root_dir={tmp_path / 'run'}",
        ]
    )
    assert np.isfinite(load_model(tmp_path / "run" / "weights.safetensors").embed.weight.detach().numpy()).all()
