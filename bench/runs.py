"""Running the program and summing up its figures, for the benchmarks beside this file."""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/default/driver/prorata"


# Of this benchmark alone: models that an older build left behind would choose by what is no longer true.
MODELS = tempfile.TemporaryDirectory(prefix="prorata-models-")


def train(*options, workers=2, seed=1, **variables):
    """One run of `prorata train`, with these environment variables; its summary.json."""
    environment = dict(os.environ, STARPU_NCPU=str(workers), STARPU_SCHED="prorata", STARPU_PERF_MODEL_DIR=MODELS.name,
                       **variables)
    with tempfile.TemporaryDirectory() as out:
        command = [PROGRAM, "train", "--json", "--quiet", "--seed", str(seed), "--out", out, "--overwrite", *options]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def interleaved(runs, repeats):
    """Runs each of {label: function of the seed} in turn, `repeats` times; {label: [result, ...]}."""
    results = {label: [] for label in runs}
    for seed in range(1, repeats + 1):
        for label, run in runs.items():
            results[label].append(run(seed))
    return results


def median(results, name):
    return statistics.median(r[name] for r in results)


def ratios(results, base, name="samples_per_second"):
    """The ratios of two lists of runs, pair by pair: the two of a pair ran one after the other."""
    return [a[name] / b[name] for a, b in zip(results, base)]
