"""Steps of training in DyNet: forward, loss, backward, and an update by SGD, autobatched.

    python3 dynet_training.py FOLDER

`pytorch_training.py` describes FOLDER, `dynet_peer.py` the models and the choice of a strategy,
here by the time of a step. The description of the graph and of the loss is timed separately, in
favour of this program. Rows of tables that a mini-batch does not name are not updated.
"""

import json
import os

import dynet_peer
from dynet_peer import FOLDER, dy, np

MODELS = {
    "tree_lstm": dynet_peer.TreeLstm,
    "bilstm_tagger": dynet_peer.Tagger,
    "lattice_lstm": dynet_peer.LatticeLstm,
}


class Training:
    """Trains on the wanted values of a mini-batch. Its result is the loss."""

    def __init__(self, collection):
        with open(os.path.join(FOLDER, "training.json")) as file:
            training = json.load(file)
        self.targets = training["targets"]
        self.trainer = dy.SimpleSGDTrainer(collection, training["rate"])
        # Otherwise the norm of the gradients is at most 5.
        self.trainer.set_clip_threshold(0)

    def expression(self, wanted, number):
        instances = self.targets[number]
        targets = [target for targets in instances for target in targets]
        losses = [dy.pickneglogsoftmax(row, target) for row, target in zip(wanted, targets)]
        return dy.esum(losses) / len(instances)

    def compute(self, expression):
        loss = expression.value()
        expression.backward()
        self.trainer.update()
        return np.array([loss])


if __name__ == "__main__":
    dynet_peer.main(Training, MODELS)
