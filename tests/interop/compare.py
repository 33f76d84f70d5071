#!/usr/bin/env python3
"""Holds a network against PyTorch: compare.py NETWORK.toml interop_gradients

The same network is made of PyTorch's modules, from the same file. Twice, once with parameters that PyTorch wrote and
Prorata reads, once with some that Prorata wrote and PyTorch loads, both work on the same mini-batch. Outputs in training
and evaluation, the gradient of every parameter and all running statistics must agree: in each tensor no element may differ
by more than 1e-4 of the tensor's largest. PyTorch computes in double precision, so what is seen is Prorata's rounding.

A rectifier or a maximum has a kink, where rounding may choose another gradient, and no tolerance is right for that. So
the images are chosen among random ones: none of its values comes so near to a kink that rounding could cross it.

Exit code 77: there is no PyTorch (or no Python 3.11), and nothing was compared.
"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import tomllib
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-4  # roundings of float32 through 20 layers and back: up to 1e-5 was seen
FAR = 2e-6  # of the largest value of a tensor: how far a value must be from a kink
BATCHES = (8, 4, 2)  # the larger one that has images for it: more samples have more values that may be near a kink
ROUNDS = 50
DTYPES = {"F32": numpy.float32, "I64": numpy.int64}
SEED, MINIBATCH = 1, 0  # of the network and its number in the training, in interop_gradients: what dropout depends on


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        array = tensor.numpy().astype(numpy.int64 if tensor.dtype == torch.int64 else numpy.float32)
        dtype = "I64" if tensor.dtype == torch.int64 else "F32"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            array = numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = torch.from_numpy(array.copy())
    return tensors


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC11), of an array of counters each: four words of 32 bits in uint64."""
    words = [numpy.asarray(word, numpy.uint64) for word in counter]
    low, shift = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    for _ in range(10):
        a, b = words[0] * numpy.uint64(0xD2511F53), words[2] * numpy.uint64(0xCD9E8D57)
        words = [(b >> shift) ^ words[1] ^ numpy.uint64(key[0]), b & low,
                 (a >> shift) ^ words[3] ^ numpy.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def dropout_mask(shape, probability, layer):
    """What nn.Dropout would multiply by, were its random numbers those that codelets/dropout.h describes."""
    channels_last = [shape[0], *shape[2:], shape[1]]
    count = int(numpy.prod(shape))
    numbers = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    words = philox([numbers, numpy.full_like(numbers, layer), numpy.full_like(numbers, MINIBATCH),
                    numpy.zeros_like(numbers)], [SEED, 0])
    probability = numpy.float32(probability)
    kept = numpy.stack(words, axis=1).reshape(-1)[:count] >= numpy.uint64(float(probability) * 2**32)
    scale = float(numpy.float32(1) / (numpy.float32(1) - probability))
    return torch.from_numpy(kept).reshape(channels_last).movedim(-1, 1).double() * scale


class Network(nn.Module):
    def __init__(self, file):
        super().__init__()
        spec = tomllib.loads(file.read_text())
        self.layers = spec["layer"]
        # Where the file leaves it to the data set: what read_network_spec takes without one.
        self.height, self.width, self.channels = spec.get("input", [28, 28, 1])
        self.classes = spec.get("classes", 10)
        self.names = [layer.get("name", str(i)) for i, layer in enumerate(self.layers)]
        self.margin = float("inf")  # to the nearest kink, of the last forward
        sizes = {"input": [self.channels, self.height, self.width]}
        for layer, name in zip(self.layers, self.names):
            module = self.module_of(layer, sizes[self.inputs(name)[0]])
            if module is not None:
                self.place(name, module)
            values = [torch.zeros([2, *sizes[i]]) for i in self.inputs(name)]
            sizes[name] = list(self.value_of(name, layer, values).shape[1:])

    def place(self, name, module):
        """Under a name with dots, as its parameters are to be called."""
        parent = self
        *folders, last = name.split(".")
        for folder in folders:
            if folder not in parent._modules:
                parent.add_module(folder, nn.Module())
            parent = parent.get_submodule(folder)
        parent.add_module(last, module)

    def inputs(self, name):
        at = self.names.index(name)
        layer = self.layers[at]
        before = self.names[at - 1] if at else "input"
        return layer.get("inputs", [layer.get("input", before)])

    def number(self, name):
        """Of a layer, as Prorata counts: what is part of another one, or moves nothing, has none."""
        def counts(at):
            kind = self.layers[at]["type"]
            part = kind == "relu" and self.layers[at - 1]["type"] in ("dense", "conv2d", "batch_norm", "add")
            return kind != "flatten" and not part
        return sum(counts(at) for at in range(self.names.index(name)))

    def module_of(self, layer, size):
        if layer["type"] == "dense":
            return nn.Linear(int(numpy.prod(size)), layer.get("units", self.classes))
        if layer["type"] == "conv2d":
            return nn.Conv2d(size[0], layer["channels"], layer["kernel"], layer.get("stride", 1), layer.get("padding", 0),
                             groups=layer.get("groups", 1), bias=layer.get("bias", True))
        if layer["type"] == "batch_norm":
            kind = nn.BatchNorm2d if len(size) == 3 else nn.BatchNorm1d
            return kind(size[0], eps=layer.get("epsilon", 1e-5), momentum=layer.get("momentum", 0.1))
        return None

    def value_of(self, name, layer, values):
        kind, x = layer["type"], values[0]
        if kind == "dense":
            return self.get_submodule(name)(x.flatten(1))
        if kind in ("conv2d", "batch_norm"):
            return self.get_submodule(name)(x)
        if kind == "relu":
            self.near(x.abs(), x)
            return nn.functional.relu(x)
        if kind == "dropout":
            if not self.training:
                return x
            return x * dropout_mask(x.shape, layer.get("probability", 0.5), self.number(name)).to(x.dtype)
        if kind == "add":
            return values[0] + values[1]
        if kind == "flatten":
            return x.flatten(1)
        if kind == "global_avg_pool":
            return x.mean((2, 3))
        window, stride = layer["window"], layer.get("stride", layer["window"])
        if kind == "avg_pool":
            return nn.functional.avg_pool2d(x, window, stride)
        if kind == "max_pool":
            windows = x.unfold(2, window, stride).unfold(3, window, stride).flatten(4)
            if window > 1:
                two = windows.topk(2).values
                # Several equal ones are behind a rectifier: none of them passes a gradient on.
                distinct = (two[..., 0] - two[..., 1])[two[..., 0] != two[..., 1]]
                self.near(distinct, x)
            return nn.functional.max_pool2d(x, window, stride)
        raise ValueError(f"{name}: this script knows no {kind}")

    def near(self, distances, x):
        if distances.numel() and x.abs().max() > 0:
            self.margin = min(self.margin, float(distances.min() / x.abs().max()))

    def forward(self, x):
        self.margin = float("inf")
        values = {"input": x}
        for layer, name in zip(self.layers, self.names):
            values[name] = self.value_of(name, layer, [values[i] for i in self.inputs(name)])
        return values[self.names[-1]]


def as_input(net, images):
    shaped = images.reshape(-1, net.height, net.width, net.channels)
    return torch.from_numpy(shaped).permute(0, 3, 1, 2).double() * float(numpy.float32(1) / numpy.float32(255))


def choose_images(net):
    """Random ones whose values are far from kinks in training."""
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for samples, seed in itertools.product(BATCHES, range(ROUNDS)):
        random = numpy.random.default_rng(seed)
        images = random.integers(0, 256, (samples, net.height * net.width * net.channels), dtype=numpy.uint8)
        with torch.no_grad():
            net.train()(as_input(net, images))
        margin = net.margin
        net.load_state_dict(state)
        if margin > FAR:
            return images, random.integers(0, net.classes, samples, dtype=numpy.uint8)
    sys.exit(f"each of {len(BATCHES) * ROUNDS} random mini-batches has a value within {FAR} of a kink")


class Comparison:
    def __init__(self):
        self.worst, self.wrong, self.compared = 0.0, 0, 0

    def tensor(self, what, ours, theirs):
        ours, theirs = torch.as_tensor(ours).double(), theirs.detach().double()
        if ours.shape != theirs.shape:
            sys.exit(f"{what}: the shape is {list(ours.shape)}, PyTorch's {list(theirs.shape)}")
        scale = float(theirs.abs().max())
        off = float((ours - theirs).abs().max())
        relative = off / scale if scale > 0 else off
        self.compared += 1
        self.worst = max(self.worst, relative)
        if not relative <= TOLERANCE:
            self.wrong += 1
            print(f"{what}: off by {relative:.3g} of the largest element, {scale:.3g}")


def compare(net, program, network_file, folder, comparison, parameters=None):
    """`parameters`: those in the file are the network's; none: Prorata's are to be."""
    what = "PyTorch's parameters" if parameters else "Prorata's parameters"
    command = [program, network_file, folder] + ([parameters] if parameters else [])

    def run(images, labels):
        (folder / "images.u8").write_bytes(images.tobytes())
        (folder / "labels.u8").write_bytes(labels.tobytes())
        subprocess.run(command, check=True, timeout=300)

    if not parameters:  # first any images, for the parameters that images are to be chosen for
        run(numpy.zeros((2, net.height * net.width * net.channels), numpy.uint8), numpy.zeros(2, numpy.uint8))
        net.load_state_dict(read_safetensors(folder / "parameters.safetensors"), strict=True)
    images, labels = choose_images(net)
    run(images, labels)
    before = net.state_dict()
    for name, tensor in read_safetensors(folder / "parameters.safetensors").items():
        if not torch.equal(tensor, before[name].to(tensor.dtype)):
            sys.exit(f"{what}: {name} is not what it was")

    net.train().zero_grad()
    outputs = net(as_input(net, images))
    nn.functional.cross_entropy(outputs, torch.from_numpy(labels.astype(numpy.int64))).backward()
    shape = list(outputs.shape)
    comparison.tensor(f"{what}: outputs", numpy.fromfile(folder / "outputs.f32", numpy.float32).reshape(shape), outputs)
    gradients = read_safetensors(folder / "gradients.safetensors")
    for name, parameter in net.named_parameters():
        comparison.tensor(f"{what}: gradient of {name}", gradients[name], parameter.grad)
    trained, after = read_safetensors(folder / "trained.safetensors"), net.state_dict()
    if set(trained) != set(after):
        sys.exit(f"{what}: these tensors have one only: {sorted(set(trained) ^ set(after))}")
    for name, tensor in trained.items():
        comparison.tensor(f"{what}: {name} after a mini-batch", tensor, after[name])
    with torch.no_grad():
        evaluated = net.eval()(as_input(net, images))
    comparison.tensor(f"{what}: outputs in evaluation",
                      numpy.fromfile(folder / "evaluated.f32", numpy.float32).reshape(shape), evaluated)


def main():
    network_file, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    torch.manual_seed(1)
    comparison = Comparison()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compare(Network(network_file).double(), program, network_file, folder, comparison)

        theirs = Network(network_file)
        for module in theirs.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):  # by itself it starts from ones and zeros
                for tensor in (module.weight, module.running_var):
                    nn.init.uniform_(tensor, 0.5, 1.5)
                for tensor in (module.bias, module.running_mean):
                    nn.init.uniform_(tensor, -0.5, 0.5)
                module.num_batches_tracked += 7
        parameters = folder / "torch.safetensors"
        write_safetensors(parameters, {n: t.detach() for n, t in theirs.state_dict().items()})
        compare(theirs.double(), program, network_file, folder, comparison, parameters)
    print(f"{network_file.stem}: {comparison.compared} tensors, {comparison.wrong} wrong; the largest difference is "
          f"{comparison.worst:.2g} of a tensor's largest element (PyTorch {torch.__version__})")
    sys.exit(1 if comparison.wrong else 0)


main()
