#!/usr/bin/env python3
"""Writes torch_reference.json: what PyTorch makes of a small network with each optimizer, for torch_test.cpp.

The network of tests/tiny_networks.h's small_mlp(), given weights, 24 samples in 6 mini-batches of 4, 4 epochs in one order.
Written with PyTorch 1.13; run it again only where the cases change:  tests/models/torch_reference.py
"""
import json
import pathlib

import torch

SAMPLES, BATCH, EPOCHS, STEPS = 24, 4, 4, 24
torch.manual_seed(1)
images = torch.randint(0, 256, (SAMPLES, 16))
labels = torch.randint(0, 3, (SAMPLES,))


def network():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def block(layer, of=lambda p: p):
    """Weights, then biases."""
    return [x for p in (layer.weight, layer.bias) for x in of(p).detach().flatten().tolist()]


def schedule(name, optimizer, warmup):
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1) if warmup else None
    fall = {"constant": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1),
            "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
            "step": lambda: torch.optim.lr_scheduler.StepLR(optimizer, SAMPLES // BATCH, 0.5)}[name]()
    return torch.optim.lr_scheduler.ChainedScheduler([s for s in (rise, fall) if s])


def train(make, schedule_name="constant", warmup=0, clip=0.0):
    net = network()
    optimizer = make(net.parameters())
    rates = schedule(schedule_name, optimizer, warmup)
    for n in range(STEPS):
        at = slice(n * BATCH % SAMPLES, n * BATCH % SAMPLES + BATCH)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images[at] / 255), labels[at]).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        rates.step()
    layers = (net[0], net[2])
    names = [k for k, v in optimizer.state[net[0].weight].items() if k != "step" and v is not None]
    return {"schedule": schedule_name, "warmup": warmup, "clip_norm": clip,
            "params": [block(layer) for layer in layers],
            "state": {k: [block(layer, lambda p: optimizer.state[p][k]) for layer in layers] for k in names}}


def sgd(lr, momentum, decay=0.0, nesterov=False, **more):
    return {"optimizer": "sgd", "lr": lr, "momentum": momentum, "weight_decay": decay, "nesterov": nesterov,
            **train(lambda p: torch.optim.SGD(p, lr, momentum, weight_decay=decay, nesterov=nesterov), **more)}


def adam(kind, lr, betas, eps, decay, **more):
    made = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return {"optimizer": kind, "lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": decay,
            **train(lambda p: made(p, lr, betas, eps, decay), **more)}


cases = {
    "sgd_momentum": sgd(0.1, 0.9),
    "sgd_decay": sgd(0.1, 0.9, 0.05),
    "sgd_nesterov_decay": sgd(0.1, 0.9, 0.05, True),
    "sgd_clipped": sgd(0.1, 0.9, clip=0.5),
    "sgd_cosine_warmup": sgd(0.1, 0.9, schedule_name="cosine", warmup=5),
    "sgd_step_warmup": sgd(0.1, 0.9, schedule_name="step", warmup=5),
    "adam": adam("adam", 0.01, (0.9, 0.999), 1e-8, 0.0),
    "adam_decay": adam("adam", 0.01, (0.8, 0.99), 1e-3, 0.1),
    "adamw_decay": adam("adamw", 0.01, (0.9, 0.999), 1e-8, 0.1),
    "adamw_clipped_cosine": adam("adamw", 0.01, (0.9, 0.999), 1e-8, 0.1, clip=0.5, schedule_name="cosine"),
}
reference = {"torch": torch.__version__, "images": images.flatten().tolist(), "labels": labels.tolist(),
             "batch": BATCH, "epochs": EPOCHS,
             "initial": [block(layer) for layer in (network()[0], network()[2])], "cases": cases}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(reference) + "\n")
