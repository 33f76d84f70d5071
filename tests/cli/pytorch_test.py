#!/usr/bin/env python3
"""Parameters go from PyTorch to Prorata and back, and mean the same: pytorch_test.py PROGRAM

Writes a LeNet-5 of PyTorch's own weights as safetensors, has `prorata predict` classify random images with it, trains on
from it (`--init`), loads the checkpoint into the same model, and holds all probabilities against PyTorch's. Exit code 77:
there is no PyTorch or NumPy, so nothing was tested. Files are written and read here by hand, for Debian 12 has no
package of safetensors.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    from torch import nn
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

PROGRAM = sys.argv[1]
# Sums of up to 400 products in single precision, in another order, through five layers; probabilities are at most 1.
TOLERANCE = 1e-5


def lenet5():
    return nn.ModuleDict({
        "conv1": nn.Conv2d(1, 6, 5, padding=2), "conv2": nn.Conv2d(6, 16, 5),
        "fc1": nn.Linear(400, 120), "fc2": nn.Linear(120, 84), "fc3": nn.Linear(84, 10)})


def probabilities(net, images):
    x = torch.from_numpy(images.astype(numpy.float32) / 255).reshape(-1, 1, 28, 28)
    for conv in ("conv1", "conv2"):
        x = nn.functional.max_pool2d(torch.relu(net[conv](x)), 2)
    x = x.flatten(1)
    for dense in ("fc1", "fc2"):
        x = torch.relu(net[dense](x))
    return torch.softmax(net["fc3"](x), 1).detach().numpy()


def save(state, file):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in state.items():
        values = tensor.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(file):
    content = file.read_bytes()
    data = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:data])
    header.pop("__metadata__")
    state = {}
    for name, t in header.items():
        begin, end = (data + offset for offset in t["data_offsets"])
        state[name] = torch.from_numpy(numpy.frombuffer(content[begin:end], "<f4").reshape(t["shape"]).copy())
    return state


def prorata(folder, *words):
    environment = dict(os.environ, STARPU_NCPU="1", STARPU_PERF_MODEL_DIR=str(folder / "models"))
    return subprocess.run([PROGRAM, *map(str, words)], cwd=folder, env=environment, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def check(what, folder, net, parameters, images):
    lines = prorata(folder, "predict", parameters, "--model", "lenet5", "images.idx").splitlines()
    ours = numpy.array([json.loads(line)["probabilities"] for line in lines])
    theirs = probabilities(net, images)
    worst = numpy.abs(ours - theirs).max()
    spread = theirs.std(axis=0).max()
    print(f"{what}: {len(ours)} images, probabilities differ by at most {worst:.2g} (from image to image: {spread:.2g})")
    # Where all images looked alike to the network, any would do.
    return ours.shape == theirs.shape and worst < TOLERANCE and spread > 100 * TOLERANCE


def main():
    torch.manual_seed(1)
    images = numpy.random.default_rng(1).integers(0, 256, (64, 28, 28), dtype=numpy.uint8)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "images.idx").write_bytes(struct.pack(">IIII", 0x803, *images.shape) + images.tobytes())
        net = lenet5()
        with torch.no_grad():  # as they come all images look nearly alike to the network
            for p in net.parameters():
                p *= 2
        save(net.state_dict(), folder / "weights.safetensors")
        right = check("from PyTorch", folder, net, "weights.safetensors", images)
        prorata(folder, "train", "--quiet", "--model", "lenet5", "--dataset", "synthetic", "--epochs", "1", "--out", "run",
                "--init", "weights.safetensors")
        before = net.state_dict()["fc1.weight"].clone()
        net.load_state_dict(load(folder / "run/checkpoint/model.safetensors"))
        assert not torch.equal(before, net.state_dict()["fc1.weight"]), "nothing was trained"
        right &= check("trained on, back to PyTorch", folder, net, "run", images)
    return 0 if right else 1


sys.exit(main())
