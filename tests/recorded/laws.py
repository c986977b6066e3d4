"""Probability laws: densities and their slopes, moments, quantiles, divergences, maps between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from tests.recorded import Program, refusal

P = [[0.3, 1.5], [2.5, 7.0]]
Q = [[0.3, 2.5], [1.5, 7.0]]
PROB = [[0.1, 0.45], [0.5, 0.9]]
REAL = [[-1.2, 0.0], [0.7, 2.0]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
SPD = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]]
TRIL = [[1.4, 0.0, 0.0], [0.2, 0.9, 0.0], [0.1, -0.2, 1.1]]
VEC = [[0.1, -0.5, 0.3], [1.0, 0.0, 2.0]]
APART = [[-0.4, 0.9], [1.9, -2.5]]
ABOVE = [[0.2, 0.9], [1.7, 4.0]]
INSIDE = [[0.05, 0.5], [0.48, 0.97]]
WHOLE = [[0.0, 1.0], [2.0, 5.0]]
CHOICES = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
BITS = [[0.0, 1.0], [1.0, 0.0]]

Law = tuple[str, dict[str, Any], Any]  # name, parameters, values
LAWS: dict[str, Law] = {
    "Normal": ("Normal", {"loc": REAL, "scale": P}, APART),
    "Uniform": ("Uniform", {"low": [[-1.5, 0.0], [0.5, 1.0]], "high": [[1.0, 2.0], [0.75, 5.0]]}, [[-1.5, 0.3], [0.6, 2.0]]),
    "Exponential": ("Exponential", {"rate": P}, ABOVE),
    "Laplace": ("Laplace", {"loc": REAL, "scale": P}, [[0.1, -2.0], [0.8, 5.0]]),
    "Cauchy": ("Cauchy", {"loc": REAL, "scale": P}, ABOVE),
    "Gamma": ("Gamma", {"concentration": P, "rate": Q}, ABOVE),
    "Chi2": ("Chi2", {"df": P}, ABOVE),
    "InverseGamma": ("InverseGamma", {"concentration": [[2.3, 3.5], [4.5, 0.5]], "rate": Q}, ABOVE),
    "Dirichlet": ("Dirichlet", {"concentration": [[0.8, 2.0, 1.5], [3.0, 7.5, 1.2]]}, SIMPLEX),
    "Beta": ("Beta", {"concentration1": P, "concentration0": Q}, INSIDE),
    "StudentT": ("StudentT", {"df": P, "loc": REAL, "scale": Q}, ABOVE),
    "FisherSnedecor": ("FisherSnedecor", {"df1": [[2.3, 3.5], [4.5, 9.0]], "df2": [[1.5, 3.0], [6.5, 12.0]]}, ABOVE),
    "Poisson": ("Poisson", {"rate": P}, WHOLE),
    "Bernoulli": ("Bernoulli", {"probs": PROB}, BITS),
    "Bernoulli by logits": ("Bernoulli", {"logits": REAL}, BITS),
    "Geometric": ("Geometric", {"probs": PROB}, WHOLE),
    "Geometric by logits": ("Geometric", {"logits": REAL}, WHOLE),
    "Binomial": ("Binomial", {"total_count": 5, "probs": PROB}, WHOLE),
    "Binomial by logits": ("Binomial", {"total_count": 5, "logits": REAL}, WHOLE),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": P, "probs": PROB}, WHOLE),
    "NegativeBinomial by logits": ("NegativeBinomial", {"total_count": P, "logits": REAL}, WHOLE),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": PROB}, INSIDE),
    "ContinuousBernoulli near a half": ("ContinuousBernoulli", {"probs": [[0.4995, 0.5], [0.5004, 0.4992]]}, INSIDE),
    "ContinuousBernoulli by logits": ("ContinuousBernoulli", {"logits": REAL}, INSIDE),
    "Categorical": ("Categorical", {"probs": SIMPLEX}, [2, 0]),
    "Categorical by logits": ("Categorical", {"logits": REAL}, [1, 0]),
    "OneHotCategorical": ("OneHotCategorical", {"probs": SIMPLEX}, CHOICES),
    "OneHotCategoricalStraightThrough": ("OneHotCategoricalStraightThrough", {"logits": VEC}, CHOICES),
    "Multinomial": ("Multinomial", {"total_count": 4, "probs": SIMPLEX}, [[1.0, 0.0, 3.0], [4.0, 0.0, 0.0]]),
    "Gumbel": ("Gumbel", {"loc": REAL, "scale": P}, APART),
    "HalfNormal": ("HalfNormal", {"scale": P}, ABOVE),
    "HalfCauchy": ("HalfCauchy", {"scale": P}, ABOVE),
    "LogNormal": ("LogNormal", {"loc": REAL, "scale": Q}, ABOVE),
    "Pareto": ("Pareto", {"scale": P, "alpha": [[0.8, 1.5], [2.5, 3.5]]}, [[0.4, 2.0], [3.0, 9.0]]),
    "GeneralizedPareto": ("GeneralizedPareto", {"loc": REAL, "scale": P, "concentration": [[0.3, -0.2], [0.7, 0.0]]}, [[-1.0, 0.5], [2.0, 4.0]]),
    "Weibull": ("Weibull", {"scale": P, "concentration": [[0.7, 1.0], [2.5, 3.0]]}, ABOVE),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": P, "concentration0": Q}, INSIDE),
    "LogisticNormal": ("LogisticNormal", {"loc": REAL, "scale": P}, SIMPLEX),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": 0.7, "probs": PROB}, INSIDE),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": 0.7, "logits": VEC}, SIMPLEX),
    "VonMises": ("VonMises", {"loc": REAL, "concentration": P}, APART),
    "MultivariateNormal": ("MultivariateNormal", {"loc": VEC, "covariance_matrix": SPD}, SIMPLEX),
    "MultivariateNormal by precision": ("MultivariateNormal", {"loc": VEC, "precision_matrix": SPD}, SIMPLEX),
    "MultivariateNormal by factor": ("MultivariateNormal", {"loc": VEC, "scale_tril": TRIL}, SIMPLEX),
    "LowRankMultivariateNormal": ("LowRankMultivariateNormal", {"loc": VEC, "cov_factor": [[1.0, 0.2], [-0.3, 0.5], [0.4, 2.0]], "cov_diag": [[1.1, 1.3, 2.0], [2.0, 1.0, 0.5]]}, SIMPLEX),
    "Wishart": ("Wishart", {"df": [4.0, 6.5], "covariance_matrix": SPD}, [[[3.0, 0.2, 0.1], [0.2, 4.0, -1.0], [0.1, -1.0, 2.0]]] * 2),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": [0.5, 1.0, 3.0]}, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.64, 0.6]]),
}  # fmt: skip
UNBOUNDED = (
    "Normal",
    "Laplace",
    "Cauchy",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "HalfCauchy",
    "LogNormal",
)
MOMENTS = ("mean", "mode", "variance", "stddev", "entropy", "perplexity")
# PyTorch gives nan where there is a mode, an infinity where two supports begin together, and does
# not bring batches together.
LEFT_OUT = {
    ("Kumaraswamy", "mode"),
    ("ContinuousBernoulli", "Uniform"),
    ("LowRankMultivariateNormal", "MultivariateNormal"),
}


def tensors(lib: Any, given: Any, grad: bool = False, dtype: str = "float64") -> Any:
    if not isinstance(given, list | float):
        return given
    made = lib.tensor(given, dtype=getattr(lib, dtype))
    return made.requires_grad_() if grad else made


def law_of(lib: Any, law: str) -> tuple[Any, dict[str, Any], Any]:
    name, given, values = LAWS[law]
    dtype = "float32" if name == "GeneralizedPareto" else "float64"  # PyTorch's has no other
    params = {key: tensors(lib, value, grad=True, dtype=dtype) for key, value in given.items()}
    at = lib.tensor(values) if isinstance(values[0], int) else tensors(lib, values, dtype=dtype)
    return getattr(lib.distributions, name)(**params), params, at


@cache
def known(lib: Any, law: str) -> Any:
    return law_of(lib, law)[0]


def slopes(lib: Any, x: Any, params: dict[str, Any]) -> list[Any]:
    leaves = [p for p in params.values() if hasattr(p, "grad_fn")]
    if not getattr(x, "requires_grad", False):
        return []
    found = lib.autograd.grad(x.sum(), leaves, allow_unused=True, retain_graph=True)
    return [lib.zeros_like(p) if g is None else g for g, p in zip(found, leaves, strict=True)]


def asked(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NotImplementedError:
        return "not implemented"


def described(lib: Any, law: str) -> dict[str, Any]:
    made, params, at = law_of(lib, law)
    name = LAWS[law][0]
    found: dict[str, Any] = {"shapes": [list(made.batch_shape), list(made.event_shape)]}
    found["log_prob"] = made.log_prob(at)
    found["slopes"] = slopes(lib, found["log_prob"], params)
    for moment in MOMENTS:
        if (law, moment) not in LEFT_OUT:
            value = asked(partial(getattr, made, moment))
            found[moment] = asked(value) if callable(value) else value
    if not isinstance(found["entropy"], str):
        found["slopes of entropy"] = slopes(lib, found["entropy"], params)
    found["cdf"] = asked(lambda: made.cdf(at))
    if not isinstance(found["cdf"], str):
        found["icdf"] = asked(lambda: made.icdf(lib.full(at.shape, 0.3, dtype=at.dtype)))
    found["cdf of nan"] = refusal(lambda: made.cdf(at * float("nan")))
    found["cdf far out"] = asked(lambda: made.cdf(at.abs() + 50) if name in UNBOUNDED else None)
    found["parameters"] = [getattr(made, key) for key in sorted(made.arg_constraints)]
    wide = made.expand((3, *made.batch_shape))
    found["expanded"] = [list(wide.batch_shape), list(wide.event_shape), wide.log_prob(at)]
    if made.has_enumerate_support:
        found["support"] = [asked(partial(made.enumerate_support, k)) for k in (True, False)]
    found["kinds"] = [
        type(made.support).__name__,
        made.support.check(at),
        sorted(map(str, made.arg_constraints)),
        made.has_rsample,
    ]
    return found


def divergences(lib: Any, law: str) -> dict[str, Any]:
    """From this law to those that are known of it."""
    made, params, _ = law_of(lib, law)
    found: dict[str, Any] = {}
    others = {name: known(lib, name) for name in LAWS if name != law} | {law: law_of(lib, law)[0]}
    for other, toward in sorted(others.items()):
        if (LAWS[law][0], LAWS[other][0]) in LEFT_OUT:
            continue
        try:
            found[other] = lib.distributions.kl_divergence(made, toward)
        except (NotImplementedError, RuntimeError, ValueError):
            continue
        if bool(found[other].isfinite().all()):
            found[f"{other}: slopes"] = slopes(lib, found[other], params)
    return found


MAPS: dict[str, tuple[Callable[[Any], Any], Any]] = {  # of distributions.transforms
    "exp": (lambda t: t.ExpTransform(), REAL),
    "power": (lambda t: t.PowerTransform(1.7), ABOVE),
    "sigmoid": (lambda t: t.SigmoidTransform(), REAL),
    "softplus": (lambda t: t.SoftplusTransform(), REAL),
    "tanh": (lambda t: t.TanhTransform(), REAL),
    "abs": (lambda t: t.AbsTransform(), ABOVE),
    "affine": (lambda t: t.AffineTransform(0.5, -2.0), REAL),
    "affine of rows": (lambda t: t.AffineTransform(0.5, 3.0, event_dim=1), REAL),
    "softmax": (lambda t: t.SoftmaxTransform(), VEC),
    "stick breaking": (lambda t: t.StickBreakingTransform(), VEC),
    "factor": (lambda t: t.LowerCholeskyTransform(), [SPD]),
    "positive definite": (lambda t: t.PositiveDefiniteTransform(), [SPD]),
    "correlations": (lambda t: t.CorrCholeskyTransform(), VEC),
    "composed": (lambda t: t.ComposeTransform([t.AffineTransform(0.1, 0.5), t.TanhTransform()]), REAL),
    "inverse": (lambda t: t.ExpTransform().inv, ABOVE),
    "independent": (lambda t: t.IndependentTransform(t.ExpTransform(), 1), REAL),
    "reshaped": (lambda t: t.ReshapeTransform((2,), (1, 2)), REAL),
    "joined": (lambda t: t.CatTransform([t.ExpTransform(), t.TanhTransform()], dim=-1, lengths=[1, 2]), VEC),
    "stacked": (lambda t: t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=-1), REAL),
    "cumulative": (lambda t: t.identity_transform, REAL),
}  # fmt: skip


def mapped(lib: Any, name: str) -> list[Any]:
    make, at = MAPS[name]
    mapping, x = make(lib.distributions.transforms), tensors(lib, at)
    y = mapping(x)
    back = asked(lambda: mapping.inv(y))
    jacobian = asked(lambda: mapping.log_abs_det_jacobian(x, y))
    shapes = [list(mapping.forward_shape(x.shape)), list(mapping.inverse_shape(y.shape))]
    signed = asked(lambda: mapping.sign)
    return [y, back, jacobian, shapes, bool(mapping.bijective), signed]


def made_of_others(lib: Any) -> list[Any]:
    laws, maps = lib.distributions, lib.distributions.transforms
    x, real, scale = (tensors(lib, v) for v in (ABOVE, REAL, P))
    mixture = laws.MixtureSameFamily(laws.Categorical(tensors(lib, PROB)), laws.Normal(real, scale))
    at = tensors(lib, [0.3, -1.0])
    changed = laws.TransformedDistribution(
        laws.Normal(real, scale), [maps.ExpTransform(), maps.AffineTransform(0.1, 2.0)]
    )
    apart = laws.Independent(laws.Gamma(scale, tensors(lib, Q)), 1)
    return [
        mixture.log_prob(at), mixture.mean, mixture.variance, mixture.cdf(at), list(mixture.batch_shape),
        changed.log_prob(x + 1), changed.cdf(x + 1), changed.icdf(tensors(lib, PROB)),
        apart.log_prob(x), apart.entropy(), apart.mean, apart.variance, list(apart.event_shape),
        laws.kl_divergence(apart, laws.Independent(laws.Gamma(x, scale), 1)),
        laws.kl_divergence(changed, laws.TransformedDistribution(laws.Normal(scale, scale), list(changed.transforms))),
    ]  # fmt: skip


CONSTRAINTS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {  # of distributions.constraints
    "boolean": (lambda c: c.boolean, [0.0, 1.0, 0.5, -1.0]),
    "integer_interval": (lambda c: c.integer_interval(-1, 3), [-2.0, -1.0, 0.5, 3.0, 4.0]),
    "nonnegative_integer": (lambda c: c.nonnegative_integer, [-1.0, 0.0, 0.5, 3.0]),
    "positive_integer": (lambda c: c.positive_integer, [-1.0, 0.0, 1.0, 1.5]),
    "real": (lambda c: c.real, [0.0, float("nan"), float("inf"), -3.0]),
    "positive": (lambda c: c.positive, [-1.0, 0.0, 0.5]),
    "nonnegative": (lambda c: c.nonnegative, [-1.0, 0.0, 0.5]),
    "greater_than": (lambda c: c.greater_than(1.0), [0.0, 1.0, 1.5]),
    "greater_than_eq": (lambda c: c.greater_than_eq(1.0), [0.0, 1.0, 1.5]),
    "less_than": (lambda c: c.less_than(1.0), [0.0, 1.0, 1.5]),
    "interval": (lambda c: c.interval(-1.0, 1.0), [-1.5, -1.0, 0.0, 1.0, 1.5]),
    "half_open_interval": (lambda c: c.half_open_interval(-1.0, 1.0), [-1.5, -1.0, 0.0, 1.0, 1.5]),
    "unit_interval": (lambda c: c.unit_interval, [-0.5, 0.0, 1.0, 1.5]),
    "simplex": (lambda c: c.simplex, [[0.2, 0.8], [0.2, 0.9], [-0.2, 1.2], [0.0, 1.0]]),
    "multinomial": (lambda c: c.multinomial(3), [[1.0, 2.0], [0.0, 5.0], [-1.0, 2.0]]),
    "one_hot": (lambda c: c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    "lower_triangular": (lambda c: c.lower_triangular, [[[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [0.0, 1.0]]]),
    "lower_cholesky": (lambda c: c.lower_cholesky, [[[1.0, 0.0], [2.0, 3.0]], [[-1.0, 0.0], [0.0, 1.0]]]),
    "corr_cholesky": (lambda c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.5, 1.0]]]),
    "square": (lambda c: c.square, [[[1.0, 0.0], [2.0, 3.0]]]),
    "symmetric": (lambda c: c.symmetric, [[[1.0, 0.0], [2.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    "positive_definite": (lambda c: c.positive_definite, [[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]]),
    "positive_semidefinite": (lambda c: c.positive_semidefinite, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]),
    "independent": (lambda c: c.independent(c.positive, 1), [[1.0, 2.0], [-1.0, 2.0]]),
}  # fmt: skip


def checked(lib: Any, name: str) -> list[Any]:
    make, at = CONSTRAINTS[name]
    made = make(lib.distributions.constraints)
    return [made.check(tensors(lib, at)), bool(made.is_discrete), int(made.event_dim)]


# A law, its wrong parameters, or a value outside its support.
WRONG: list[tuple[str, dict[str, Any], Any]] = [
    ("Normal", {"loc": 0.0, "scale": 0.0}, None), ("Uniform", {"low": 1.0, "high": 1.0}, None),
    ("Exponential", {"rate": -1.0}, None), ("Laplace", {"loc": 0.0, "scale": -1.0}, None),
    ("Gamma", {"concentration": 0.0, "rate": 1.0}, None), ("Poisson", {"rate": -1.0}, None),
    ("Bernoulli", {"probs": 1.5}, None), ("Geometric", {"probs": 0.0}, None),
    ("Geometric", {"probs": 0.5, "logits": 0.5}, None), ("Binomial", {"total_count": 3}, None),
    ("Bernoulli", {"probs": 0.5}, 0.5), ("Exponential", {"rate": 1.0}, -1.0),
    ("Beta", {"concentration1": 1.0, "concentration0": 1.0}, 1.5), ("Poisson", {"rate": 1.0}, 0.5),
    ("Geometric", {"probs": 0.5}, -1.0), ("HalfNormal", {"scale": 1.0}, -1.0),
    ("HalfCauchy", {"scale": 1.0}, -1.0), ("Uniform", {"low": 0.0, "high": 1.0}, 1.5),
    ("Binomial", {"total_count": 3, "probs": 0.5}, 4.0), ("Weibull", {"scale": 1.0, "concentration": 1.0}, -1.0),
    ("LogNormal", {"loc": 0.0, "scale": 1.0}, -1.0), ("Pareto", {"scale": 2.0, "alpha": 1.0}, 1.0),
    ("Categorical", {"probs": [0.5, 0.5]}, 2.0), ("Categorical", {"probs": 0.5}, None),
    ("Dirichlet", {"concentration": 0.5}, None), ("Gumbel", {"loc": 0.0, "scale": 0.0}, None),
    ("Multinomial", {"total_count": 2, "probs": [0.5, 0.5]}, [1.0, 2.0]), ("Normal", {"loc": 0.0, "scale": 1.0}, float("nan")),
    ("Gamma", {"concentration": 1.0, "rate": 1.0}, -1.0), ("StudentT", {"df": 0.0}, None),
    ("VonMises", {"loc": 0.0, "concentration": 0.0}, None), ("NegativeBinomial", {"total_count": 1.0, "probs": 1.0}, None),
    ("MultivariateNormal", {"loc": [0.0, 0.0]}, None), ("Wishart", {"df": 1.0, "covariance_matrix": SPD}, None),
    ("LKJCholesky", {"dim": 1}, None), ("OneHotCategorical", {"probs": [0.5, 0.5]}, [1.0, 1.0]),
]  # fmt: skip


def refused(lib: Any, name: str, given: dict[str, Any], value: Any) -> str:
    def call() -> Any:
        made = getattr(lib.distributions, name)(**{k: tensors(lib, v) for k, v in given.items()})
        return made if value is None else made.log_prob(tensors(lib, value))

    return refusal(call)


PROGRAMS: dict[str, Program] = {
    **{law: lambda lib, law=law: described(lib, law) for law in LAWS},
    **{f"from {law}": lambda lib, law=law: divergences(lib, law) for law in LAWS},
    **{f"map {name}": lambda lib, name=name: mapped(lib, name) for name in MAPS},
    **{f"constraint {name}": lambda lib, name=name: checked(lib, name) for name in CONSTRAINTS},
    "made of others": made_of_others,
    **{
        f"refused: {name} {given} {value}": lambda lib, wrong=(name, given, value): refused(
            lib, *wrong
        )
        for name, given, value in WRONG
    },
}
