"""Trains a model folder in PyTorch: the twin of `edbatch train`.

    python3 train_twin.py DIR --input FILE --valid FILE --test FILE --batch 25 --epochs 20
        [--optimizer sgd|adagrad|adam] [--rate R] [--decay D] [--group PREFIX=FACTOR]
        [--metric loss|accuracy|root|f1] [--dropout-output P] [--seed N] [--double]

DIR is a folder of `edbatch init` with a tree_lstm or a bilstm_tagger. Weights, vocabularies,
mini-batches and their order, the loss and the metrics are those of `edbatch train` with the same
options. Trees are batched level by level. Taggers run as packed sequences through `nn.LSTM`.
Embeddings are sparse: only the rows that a mini-batch names change, and decay spares them.

Prints a JSON line for each epoch, then one for the test file with the weights of the best epoch.
"""

import argparse
import gzip
import json
import math
import re
import struct
import time
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

MASK = (1 << 64) - 1


def splitmix(state):
    """Returns the next state and number of SplitMix64, which seeds the generator."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def rotate(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


def shuffled(n, batch, seed, epoch):
    """Returns the mini-batches of an epoch, as `edbatch::shuffled` does."""
    state, s = seed ^ ((epoch * 0xD1342543DE82EF95) & MASK), []
    for _ in range(4):
        state, number = splitmix(state)
        s.append(number)
    order = list(range(n))
    for end in range(n - 1, 0, -1):
        number = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        other = (number * (end + 1)) >> 64
        order[end], order[other] = order[other], order[end]
    return [order[first : first + batch] for first in range(0, n, batch)]


# Values of the Rust function.
assert shuffled(10, 10, 7, 3) == [[6, 8, 7, 3, 5, 9, 1, 4, 2, 0]]


def lines(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        return file.read().removesuffix("\n").split("\n")


def read_weights(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    weights = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            first, end = (8 + length + offset for offset in entry["data_offsets"])
            tensor = torch.frombuffer(bytearray(data[first:end]), dtype=torch.float32)
            weights[name] = tensor.reshape(entry["shape"])
    return weights


class Tree:
    """A tree in post-order: for each node its label, and its token or its children."""

    def __init__(self, text, vocabulary):
        self.labels, self.tokens, self.children, self.height = [], [], [], []
        self.words = re.findall(r"\(|\)|[^ ()]+", text)
        self.place = 0
        self.read(vocabulary)

    def read(self, vocabulary):
        self.place += 1
        label = int(self.words[self.place])
        self.place += 1
        if self.words[self.place] == "(":
            left = self.read(vocabulary)
            right = self.read(vocabulary)
            token, children = -1, (left, right)
            height = 1 + max(self.height[left], self.height[right])
        else:
            token, children, height = vocabulary.get(self.words[self.place], 0), None, 0
            self.place += 1
        self.place += 1
        self.labels.append(label)
        self.tokens.append(token)
        self.children.append(children)
        self.height.append(height)
        return len(self.labels) - 1


class TreeLstm(nn.Module):
    """Leaves, then inner nodes level by level."""

    table = "embed.weight"

    def __init__(self, weights, config, dropout):
        super().__init__()
        self.weights = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(value) for name, value in weights.items()}
        )
        self.dropout = dropout

    def weight(self, name):
        return self.weights[name.replace(".", "/")]

    def examples(self, path, folder):
        vocabulary = {token: id for id, token in enumerate(lines(f"{folder}/vocab.txt"))}
        return [Tree(line, vocabulary) for line in lines(path)]

    def forward(self, trees):
        """Returns scores and targets of all nodes, and the place of each root."""
        levels, rows = defaultdict(list), {}
        for number, tree in enumerate(trees):
            for node, height in enumerate(tree.height):
                levels[height].append((number, node))
        count = 0
        for height in sorted(levels):
            for node in levels[height]:
                rows[node] = count
                count += 1
        w = self.weight
        leaves = torch.tensor([trees[number].tokens[node] for number, node in levels[0]])
        embedded = F.embedding(leaves, w(self.table), sparse=True)
        weight = torch.cat([w(f"leaf.w_{gate}") for gate in "iou"])
        bias = torch.cat([w(f"leaf.b_{gate}") for gate in "iou"])
        i, o, u = F.linear(embedded, weight, bias).chunk(3, 1)
        c = i.sigmoid() * u.tanh()
        hs, cs = [o.sigmoid() * c.tanh()], [c]
        left = torch.cat([w(f"node.u_{gate}_l") for gate in "iouf"])
        right = torch.cat([w(f"node.u_{gate}_r") for gate in "iou"])
        forget_r = w("node.u_f_r")
        bias = torch.cat([w(f"node.b_{gate}") for gate in "iouf"])
        weight_r, hidden = torch.cat([right, forget_r]), forget_r.shape[0]
        for height in sorted(levels)[1:]:
            children = [trees[number].children[node] for number, node in levels[height]]
            numbers = [number for number, _ in levels[height]]
            at = [
                torch.tensor([rows[number, pair[side]] for number, pair in zip(numbers, children)])
                for side in (0, 1)
            ]
            all_h, all_c = torch.cat(hs), torch.cat(cs)
            # The products with the left child, with the biases; then those with the right one.
            of_left = F.linear(all_h[at[0]], left, bias)
            of_right = F.linear(all_h[at[1]], weight_r)
            i, o, u = (of_left[:, : 3 * hidden] + of_right[:, : 3 * hidden]).chunk(3, 1)
            f_l = of_left[:, 3 * hidden :].sigmoid()
            f_r = (of_right[:, 3 * hidden :] + bias[3 * hidden :]).sigmoid()
            c = i.sigmoid() * u.tanh() + f_l * all_c[at[0]] + f_r * all_c[at[1]]
            hs.append(o.sigmoid() * c.tanh())
            cs.append(c)
        h = F.dropout(torch.cat(hs), self.dropout, self.training)
        scores = F.linear(h, w("out.weight"), w("out.bias"))
        targets = torch.empty(count, dtype=torch.int64)
        order = sorted(rows, key=rows.get)
        targets[:] = torch.tensor([trees[number].labels[node] for number, node in order])
        roots = [rows[number, len(tree.labels) - 1] for number, tree in enumerate(trees)]
        return scores, targets, roots


class Tagger(nn.Module):
    """Two stacks of LSTMs, left to right and right to left, over packed sequences."""

    table = "embed.weight"

    def __init__(self, weights, config, dropout):
        super().__init__()
        layers, hidden = config["layers"], config["hidden"]
        self.embedding = nn.Parameter(weights[self.table])
        self.stacks = nn.ModuleDict()
        for stack in ("fwd", "bwd"):
            lstm = nn.LSTM(config["embed"], hidden, layers, batch_first=True)
            for layer in range(layers):
                # The order of gates in PyTorch is i, f, g, o.
                gates = lambda kind: torch.cat(
                    [weights[f"{stack}.{layer}.{kind}_{gate}"] for gate in "ifgo"]
                )
                state = lstm.state_dict()
                state[f"weight_ih_l{layer}"].copy_(gates("w"))
                state[f"weight_hh_l{layer}"].copy_(gates("u"))
                state[f"bias_ih_l{layer}"].copy_(gates("b"))
                # One bias, as in the model; the other stays zero.
                state[f"bias_hh_l{layer}"].zero_()
                getattr(lstm, f"bias_hh_l{layer}").requires_grad_(False)
            self.stacks[stack] = lstm
        start = lambda stack, kind: nn.Parameter(
            torch.stack([weights[f"{stack}.{layer}.{kind}"] for layer in range(layers)])
        )
        self.starts = nn.ParameterDict(
            {stack + kind: start(stack, kind) for stack in ("fwd", "bwd") for kind in ("h0", "c0")}
        )
        self.mlp, self.out = (nn.Linear(1, 1) for _ in range(2))
        for linear, name in ((self.mlp, "mlp"), (self.out, "out")):
            linear.weight = nn.Parameter(weights[f"{name}.weight"])
            linear.bias = nn.Parameter(weights[f"{name}.bias"])
        self.dropout = dropout

    def examples(self, path, folder):
        vocabulary = {token: id for id, token in enumerate(lines(f"{folder}/vocab.txt"))}
        self.names = lines(f"{folder}/tags.txt")
        numbers = {tag: number for number, tag in enumerate(self.names)}
        read = []
        for line in lines(path):
            pairs = [word.rsplit("|", 1) for word in line.split(" ") if word]
            words = [vocabulary.get(pair[0], 0) for pair in pairs]
            tags = [numbers[pair[1]] if len(pair) == 2 else -100 for pair in pairs]
            if words:
                read.append((torch.tensor(words), torch.tensor(tags)))
        return read

    def forward(self, sentences):
        lengths = torch.tensor([len(words) for words, _ in sentences])
        forth = torch.arange(int(lengths.max()))[None, :].expand(len(sentences), -1)
        back = (lengths[:, None] - 1 - forth).clamp(min=0)
        words = nn.utils.rnn.pad_sequence([words for words, _ in sentences], batch_first=True)
        tops = []
        for stack, order in (("fwd", forth), ("bwd", back)):
            embedded = F.embedding(words.gather(1, order), self.embedding, sparse=True)
            packed = pack_padded_sequence(embedded, lengths, True, enforce_sorted=False)
            start = [
                self.starts[stack + kind][:, None].expand(-1, len(sentences), -1).contiguous()
                for kind in ("h0", "c0")
            ]
            top, _ = pad_packed_sequence(self.stacks[stack](packed, start)[0], batch_first=True)
            tops.append(top.gather(1, order[:, :, None].expand_as(top)))
        real = forth < lengths[:, None]
        hidden = torch.tanh(self.mlp(torch.cat(tops, 2)[real]))
        scores = self.out(F.dropout(hidden, self.dropout, self.training))
        return scores, torch.cat([tags for _, tags in sentences]), []


def chunks(tags):
    """Returns the chunks of a sentence, as conlleval finds them."""
    found, before = [], ("O", "")
    for index, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix in ("B", "I"):
            if prefix == "B" or before[0] not in ("B", "I") or before[1] != kind:
                found.append([index, index + 1, kind])
            else:
                found[-1][1] = index + 1
        before = (prefix, kind)
    return {tuple(chunk) for chunk in found}


def evaluate(model, examples):
    model.eval()
    sums, both, all = defaultdict(float), 0, 0
    with torch.no_grad():
        for first in range(0, len(examples), 64):
            part = examples[first : first + 64]
            scores, targets, roots = model(part)
            classes, known = scores.argmax(1), targets >= 0
            sums["loss"] += F.cross_entropy(scores.double(), targets, reduction="sum").item()
            sums["rows"] += known.sum().item()
            sums["right"] += (classes == targets)[known].sum().item()
            sums["roots"] += sum((classes == targets)[root].item() for root in roots)
            if not roots:
                place = 0
                for words, tags in part:
                    found = classes[place : place + len(words)].tolist()
                    place += len(words)
                    name = lambda tag: model.names[tag] if tag >= 0 else "O"
                    expected = chunks([name(tag) for tag in tags.tolist()])
                    found = chunks([name(tag) for tag in found])
                    both, all = both + len(expected & found), all + len(expected) + len(found)
    metrics = {"loss": sums["loss"] / len(examples), "accuracy": sums["right"] / sums["rows"]}
    if all:
        metrics["f1"] = 2 * both / all
    else:
        metrics["root"] = sums["roots"] / len(examples)
    return metrics


def optimizers(model, args):
    """Returns one optimizer for the table and one for all other parameters."""
    factors = [group.split("=") for group in args.group]
    named = {name.replace("weights.", "").replace("/", "."): p for name, p in model.named_parameters()}
    tables = [p for name, p in named.items() if name in (model.table, "embedding")]
    dense = [p for p in named.values() if p.requires_grad and all(p is not t for t in tables)]
    assert len(tables) == 1 and all("embed".startswith(prefix) for prefix, _ in factors)
    table_rate = args.rate * math.prod(float(factor) for _, factor in factors)
    rules = {
        "sgd": (torch.optim.SGD, torch.optim.SGD),
        "adagrad": (torch.optim.Adagrad, torch.optim.Adagrad),
        "adam": (torch.optim.Adam, torch.optim.SparseAdam),
    }
    of_dense, of_table = rules[args.optimizer]
    return [of_dense(dense, lr=args.rate, weight_decay=args.decay), of_table(tables, lr=table_rate)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--input", required=True)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--test")
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--decay", type=float, default=0.0)
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--metric", default="loss")
    parser.add_argument("--dropout-output", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--double", action="store_true", help="computes in float64")
    parser.add_argument("--losses", action="store_true", help="prints the loss of each mini-batch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    with open(f"{args.dir}/config.json") as file:
        config = json.load(file)
    weights = read_weights(f"{args.dir}/weights.safetensors")
    if args.double:
        weights = {name: value.double() for name, value in weights.items()}
        torch.set_default_dtype(torch.float64)
    kinds = {"tree_lstm": TreeLstm, "bilstm_tagger": Tagger}
    model = kinds[config["model"]](weights, config, args.dropout_output)
    train, valid = (model.examples(path, args.dir) for path in (args.input, args.valid))
    both = optimizers(model, args)
    best = None
    for epoch in range(args.epochs):
        start, loss_sum = time.perf_counter(), 0.0
        model.train()
        for indices in shuffled(len(train), args.batch, args.seed, epoch):
            part = [train[index] for index in indices]
            for optimizer in both:
                optimizer.zero_grad(set_to_none=True)
            scores, targets, _ = model(part)
            loss = F.cross_entropy(scores, targets, reduction="sum") / len(part)
            loss.backward()
            for optimizer in both:
                optimizer.step()
            loss_sum += loss.item() * len(part)
            if args.losses:
                print(json.dumps({"loss": loss.item()}))
        seconds = time.perf_counter() - start
        metrics = evaluate(model, valid)
        value = metrics[args.metric] * (-1 if args.metric == "loss" else 1)
        if best is None or value > best[0]:
            state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            best = (value, epoch + 1, state)
        line = {"epoch": epoch + 1, "loss": loss_sum / len(train), "valid": metrics, "seconds": seconds}
        print(json.dumps(line), flush=True)
    if args.test:
        model.load_state_dict(best[2])
        metrics = evaluate(model, model.examples(args.test, args.dir))
        print(json.dumps({"best_epoch": best[1], "test": metrics}), flush=True)


if __name__ == "__main__":
    main()
