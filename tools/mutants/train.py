"""Mistakes in train/."""

from .mutant import of

MUTANTS = [
    *of(
        "train/task.py",
        ("tests/train/test_task.py",),
        (
            "all-of-the-image-counts",
            'present * inputs[:, spec.positions(["mask:gap"])] if spec.corrects_references else present',
            "present",
        ),
        ("likelihood-moves-the-bands", "error.detach().abs()", "error.abs()"),
        ("expected-error-turned", "torch.exp(-scale) + scale", "torch.exp(scale) + scale"),
        ("spread-factor-forgotten", " + math.log(spec.spread_factor)", ""),
        ("absent-bands-count", "counted.sum((1, 2, 3)).clamp_min(1)", "torch.ones_like(counted).sum((1, 2, 3))"),
        ("log-far-from-zero", "/ count + 2e-5)", "/ count + 2e-3)"),
        (
            "without-the-network-turned",
            "if spec.corrects_references else came",
            "if not spec.corrects_references else came",
        ),
        ("falls-at-once", "if done <= self.flat:", "if done <= 0:"),
        ("milestone-late", "done >= milestone", "done > milestone"),
        ("warm-up-from-zero", "(step + 1) / self.warmup_steps", "step / self.warmup_steps"),
        ("psnr-of-clear-images", "+ 1e-4).log()", "+ 1e-2).log()"),
        ("first-layer-of-zeros", '"output.weight"', '"embed.weight"'),
    ),
    *of(
        "train/data.py",
        ("tests/train/test_data.py",),
        ("cycle-ignored", "now = step % cycle if cycle else step", "now = step"),
        ("ranks-read-the-same", "(batch * self.world + self.rank)", "(batch * self.world)"),
        ("resumes-too-early", "range(self.start * self.share,", "range(self.start,"),
        ("sizes-by-batch", "batch // self.share, self.cycle", "batch, self.cycle"),
        ("numbers-twice", "* max(self.sizes.values())", "* min(self.sizes.values())"),
        ("one-order", "manual_seed(seed * 7919 + time)", "manual_seed(seed * 7919)"),
        ("seed-without-effect", "manual_seed(self.seed * 1_000_003 + number)", "manual_seed(number)"),
        ("clear-share-turned", "< self.clear_share", "> self.clear_share"),
    ),
    *of(
        "../../tools/dates_net/samples.py",
        ("tests/tools/test_dates_net_samples.py",),
        ("no-gap-in-the-square", '["gap"].float().mean() > 0.1', '["gap"].float().mean() >= 0'),
        ("never-turned", "return turn_sample(cut, generator=generator)", "return cut"),
        ("validated-on-the-pool", '"held" if part == "val" else "pool"', '"pool"'),
        ("error-turned", "(pair.target - pair.harmonised)", "(pair.harmonised - pair.target)"),
        ("errors-nobody-can-know", ".clip(-MOST, MOST)", ""),
    ),
]
