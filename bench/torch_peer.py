"""The same training in PyTorch, as a peer: python3 torch_peer.py MODEL THREADS SEED [EPOCHS]

Prints one JSON object with samples_per_second (training alone, after a few steps to warm up) and test_accuracy. Same
networks, batch 64, SGD with momentum 0.9 and a rate of 0.02, Fashion-MNIST; the fastest plain loop that PyTorch's
documentation suggests: tensors in memory, gradients set to None. Needs PyTorch and NumPy.
"""

import gzip
import json
import sys
import time

import numpy
import torch
from torch import nn

BATCH = 64
FOLDER = "/usr/share/datasets/fashion-mnist/"


def read(name, header):
    with gzip.open(FOLDER + name) as f:
        return numpy.frombuffer(f.read(), numpy.uint8, offset=header)


def images(name):
    return torch.from_numpy(read(name, 16).astype(numpy.float32) / 255).reshape(-1, 1, 28, 28)


def labels(name):
    return torch.from_numpy(read(name, 8).astype(numpy.int64))


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                                 nn.Linear(512, 10)),
    "lenet5": lambda: nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
                                    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
                                    nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
}

model, threads, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
epochs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
torch.set_num_threads(threads)
torch.manual_seed(seed)
x, y = images("train-images-idx3-ubyte.gz"), labels("train-labels-idx1-ubyte.gz")
net = NETWORKS[model]()
optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
loss = nn.CrossEntropyLoss()


def step(batch):
    optimizer.zero_grad(set_to_none=True)
    loss(net(x[batch]), y[batch]).backward()
    optimizer.step()


for batch in torch.randperm(len(y))[: 5 * BATCH].split(BATCH):
    step(batch)
begin = time.perf_counter()
for _ in range(epochs):
    for batch in torch.randperm(len(y)).split(BATCH):
        step(batch)
seconds = time.perf_counter() - begin
with torch.no_grad():
    right = [(net(a).argmax(1) == b).sum().item()
             for a, b in zip(images("t10k-images-idx3-ubyte.gz").split(1000), labels("t10k-labels-idx1-ubyte.gz").split(1000))]
print(json.dumps({"version": torch.__version__, "samples_per_second": epochs * len(y) / seconds,
                  "test_accuracy": sum(right) / 10000}))
