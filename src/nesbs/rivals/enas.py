"""ENAS (Pham et al., 2018): a recurrent controller draws paths and learns from how well they do.

    each step   θ ← Adam by REINFORCE: (reward − baseline) ∇ log p_θ(A) + entropy bonus, A ∼ p_θ, reward: accuracy of
                A on a validation batch with the shared weights; baseline: moving average of rewards
                A ∼ p_θ;  weights on the path A ← SGD on a training batch
    draw N architectures from p_θ;  return the most accurate on the validation images

The two phases take turns step by step instead of epoch by epoch.
"""

import torch
from torch import Tensor, nn

from nesbs import rng
from nesbs.rivals.learner import Ascent, Learner, Step, best_of, learn_paths, live_path, samples_of
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet

HIDDEN = 64
LEARNING_RATE = 3.5e-4  # of the controller; of the paper
TEMPERATURE, TANH = 5.0, 2.5  # what keeps the controller from being certain too soon; of the paper
ENTROPY = 1e-4  # weight of the bonus
DECAY = 0.95  # share of the baseline that is left after a step
DRAWN = 4  # architectures a step


class Controller(nn.Module):
    """An LSTM that takes the space's decisions one after the other, each knowing the last."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space
        widest = max(len(variable.choices) for variable in space.variables)
        self.embedding = nn.Embedding(1 + widest, HIDDEN)  # the first stands for the beginning
        self.cell = nn.LSTMCell(HIDDEN, HIDDEN)
        self.heads = nn.ModuleList(nn.Linear(HIDDEN, len(variable.choices)) for variable in space.variables)

    def forward(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw `count`: choices (count, variables), their log-probabilities (count,) and entropies (count,).

        A decision that plays no part, because of an earlier one, counts in neither.
        """
        last = torch.zeros(count, dtype=torch.int64)
        state: tuple[Tensor, Tensor] | None = None
        taken: list[Tensor] = []
        log_prob, entropy = torch.zeros(count), torch.zeros(count)
        for variable, head in zip(self.space.variables, self.heads, strict=True):
            state = self.cell(self.embedding(last), state)
            log_p = (TANH * torch.tanh(head(state[0]) / TEMPERATURE)).log_softmax(-1)
            choice = torch.multinomial(log_p.detach().exp(), 1, generator=generator)[:, 0]
            plays = torch.ones(count, dtype=torch.bool)
            if variable.condition is not None:
                parent, holding = variable.condition
                plays = torch.isin(taken[parent], torch.tensor(holding))
            log_prob = log_prob + plays * log_p.gather(1, choice[:, None])[:, 0]
            entropy = entropy - plays * (log_p.exp() * log_p).sum(-1)
            taken.append(choice)
            last = choice + 1
        return torch.stack(taken, 1), log_prob, entropy


class _Learner(Learner):
    """A supernet with a controller's parameters, laid out in a row, and the baseline beside it."""

    baseline: Tensor

    def __init__(self, supernet: Supernet, seed: int) -> None:
        with rng.seeded(seed, "enas", "controller"):
            controller = Controller(supernet.space)
        named = dict(controller.named_parameters())
        super().__init__(supernet, torch.cat([parameter.detach().flatten() for parameter in named.values()]))
        self.register_buffer("baseline", torch.full((), torch.nan))
        self._shapes = {name: parameter.shape for name, parameter in named.items()}
        self._controller = [controller]  # in a list: not a part of the module, whose weights SGD trains

    def draw(self, theta: Tensor, count: int, generator: torch.Generator) -> tuple[list[Architecture], Tensor, Tensor]:
        """Architectures of the controller with parameters `theta`, their log-probabilities and entropies."""
        parts = theta.split([shape.numel() for shape in self._shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
        with torch.autocast("cpu", enabled=False):  # where it lives; the supernet may be in lower precision
            picks, log_prob, entropy = torch.func.functional_call(self._controller[0], named, (count, generator))
        return [self.supernet.space.architecture(row) for row in picks.tolist()], log_prob, entropy


def enas(request: SearchRequest) -> SearchResult:
    """Search by ENAS; the request's learning rate is the controller's, its `samples` are judged at the end.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, small)
    >>> enas(request).architecture in set(toy_edges())
    True
    """
    learner = _Learner(request.supernet(), request.seed)

    def gradient(step: Step) -> Tensor:
        theta = learner.logits.cpu().clone().requires_grad_()
        drawn, log_prob, entropy = learner.draw(theta, DRAWN, step.random)
        with torch.no_grad():
            rewards = (learner.predict(step.images, drawn).argmax(-1) == step.labels).float().mean(-1)
            mean = rewards.mean()
            before = torch.where(learner.baseline.isnan(), mean, learner.baseline)
            learner.baseline.copy_(DECAY * before + (1 - DECAY) * mean)
        objective = ((rewards - before).cpu() * log_prob + ENTROPY * entropy).mean()
        (slope,) = torch.autograd.grad(objective, theta)
        return slope

    def path(step: Step) -> Architecture:
        return live_path(request, lambda: learner.draw(learner.logits.cpu(), 1, step.random)[0][0])

    learn_paths(learner, request, Ascent(gradient, learning_rate=LEARNING_RATE), path, name="enas")
    random = rng.generator(request.seed, "enas", "drawn")
    drawn = samples_of(request, lambda count: learner.draw(learner.logits.cpu(), count, random)[0])
    return best_of(request, learner.supernet, drawn)
