"""Policies on disk: a NumPy archive of arrays with a JSON header, without pickled objects."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common import plugins, stores
from counterrank.common.atomic import replacing
from counterrank.common.errors import ConfigError, PolicyError
from counterrank.common.records import Json
from counterrank.common.texts import first_line
from counterrank.policies.arrays import ArrayPolicy, Field
from counterrank.policies.base import Policy
from counterrank.policies.factored import EpsilonGreedy, Factored, Softmax, Uniform
from counterrank.policies.mixture import Mixture
from counterrank.policies.ranked import (
    Deterministic,
    Enumerated,
    RandomSwap,
    RandTopN,
    TeamDraft,
    UniformPermutation,
)
from counterrank.policies.specs import PolicySpec, parse_policy
from counterrank.policies.without_replacement import BelowFold, PlackettLuce, SlotEpsilonGreedy

FORMAT = "counterrank/policy/1"
#: The schema of a file with a policy spec, which a server draws from and a log is read with.
EXPLORATION = "counterrank/exploration/1"

#: The exceptions that damaged archives raise in zipfile, zlib, NumPy and JSON.
_DAMAGE = (
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)
#: The types of stored fields.
_NUMBERS = (np.float64, np.int64, np.bool_)
#: Limits of an archive's unpacked size, against decompression bombs: the ratio to the packed size, or
#: a number of bytes that is always accepted.
_MAX_RATIO = 400
_HARMLESS = 1 << 30

#: The policies that can be stored. A new policy adds its class.
REGISTRY: tuple[type[ArrayPolicy], ...] = (
    Factored,
    Softmax,
    EpsilonGreedy,
    Uniform,
    PlackettLuce,
    BelowFold,
    UniformPermutation,
    Mixture,
    SlotEpsilonGreedy,
    RandTopN,
    RandomSwap,
    TeamDraft,
    Enumerated,
    Deterministic,
)


_BY_NAME = {kind.__name__: kind for kind in REGISTRY}


def kinds() -> list[str]:
    """Return the names of all policies that can be stored; those of plug-ins are last."""
    return [*_BY_NAME, *plugins.plugins_of(plugins.POLICIES, reserved=_BY_NAME)]


def policy_class(kind: str) -> type[ArrayPolicy]:
    """Return the class of a stored policy of this kind, from this package or a plug-in."""
    if kind in _BY_NAME:
        return _BY_NAME[kind]
    if kind not in kinds():
        raise PolicyError(f"unknown policy kind '{kind}'; known: {', '.join(kinds())}")
    entry_point = plugins.plugins_of(plugins.POLICIES)[kind]
    loaded = plugins.load(entry_point, PolicyError)
    if (
        not (isinstance(loaded, type) and issubclass(loaded, ArrayPolicy))
        or loaded.__name__ != kind
    ):
        raise PolicyError(
            f"{plugins.described(entry_point)} is no ArrayPolicy called '{kind}', and cannot be stored"
        )
    return loaded


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write the policy to `path` (.npz); the file is replaced atomically.

    Parameters
    ----------
    policy
        A policy that consists of arrays.
    path
        The file to write.

    Returns
    -------
    None

    Raises
    ------
    PolicyError
        The policy contains a function.
    OutputError
        The file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import counterrank as cr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "policy.npz")
    ...     cr.save_policy(cr.PlackettLuce([[2.0, 1.0]]), path)
    ...     cr.load_policy(path).scores.tolist()
    [[2.0, 1.0]]
    """
    arrays: dict[str, NDArray[Any]] = {}
    header = {"format": FORMAT, "policy": _describe(policy, "policy", arrays)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_policy(path: str | os.PathLike[str]) -> Any:
    """Return the policy that is stored at `path`, after the checks that a new policy passes.

    Parameters
    ----------
    path
        A file of `save_policy` (.npz), or a policy file (.json) of `counterrank learn` or a plug-in.

    Returns
    -------
    Policy or LearnedPolicy
        A policy bound to the rows it was saved with (.npz), or one to be bound to logs (.json).

    Raises
    ------
    PolicyError
        The file is damaged, too new, or of a kind that is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> import counterrank as cr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "policy.npz")
    ...     cr.save_policy(cr.Uniform(3), path)
    ...     cr.load_policy(path)
    Uniform(rows=1, actions=3)
    """
    if os.fspath(path).lower().endswith(".json"):
        return _from_json(path)
    try:
        source = io.BytesIO(stores.read_bytes(path)) if stores.is_url(path) else path
        with zipfile.ZipFile(source) as packed:
            unpacked = sum(member.file_size for member in packed.infolist())
        if unpacked > max(_HARMLESS, _MAX_RATIO * stores.stamp(path)[0]):
            raise PolicyError(
                f"{path} unpacks to {unpacked >> 20} MB, more than {_MAX_RATIO} times its size"
            )
        with np.load(source, allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
            if header.get("format") != FORMAT:
                raise PolicyError(
                    f"{path}: format {header.get('format')!r}, this version reads {FORMAT!r}"
                )
            return _build(header["policy"], archive)
    except PolicyError:
        raise
    except _DAMAGE as problem:
        raise PolicyError(f"{path} is not a stored policy: {first_line(problem)}") from problem


def _from_json(path: str | os.PathLike[str]) -> Any:
    """Return the policy of a JSON file, by its schema: a spec, a learned policy, or that of a plug-in."""
    try:
        if stores.stamp(path)[0] > _HARMLESS:
            raise PolicyError("this file is larger than any policy")
        data = json.loads(stores.read_bytes(path))
        schema = data.get("schema") if isinstance(data, dict) else None
        formats = plugins.plugins_of(plugins.POLICY_FILES)
        if schema == EXPLORATION:
            text = data.get("policy")
            spec = parse_policy(text) if isinstance(text, str) else None
            if spec is None or spec.path is not None:
                raise PolicyError(f"'policy' must be a policy spec such as \"top\"; got {text!r}")
            return spec
        if isinstance(schema, str) and schema in formats:
            return plugins.load(formats[schema], PolicyError).from_dict(data)
        raise PolicyError(
            f"this is no policy file: schema {schema!r}, known are "
            f"{', '.join([EXPLORATION, *formats])}"
        )
    except OSError as problem:
        raise PolicyError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except (ConfigError, PolicyError) as problem:
        raise PolicyError(f"{path}: {problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise PolicyError(f"{path} is no policy file: {problem}") from problem


def spec_in_file(spec: PolicySpec) -> PolicySpec:
    """Return the spec in the exploration file that `spec` refers to, or `spec` itself.

    Exploration files need the scores of the log; other policy files contain a scorer.
    """
    if spec.path is None or not spec.path.lower().endswith(".json"):
        return spec
    loaded = load_policy(spec.path)
    return loaded if isinstance(loaded, PolicySpec) else spec


def exploration_file(spec: PolicySpec, notes: Json | None = None) -> str:
    """Return the text of an exploration file; `notes` are for readers and are ignored when loading.

    >>> json.loads(exploration_file(parse_policy("0.9*top+0.1*shuffle")))["policy"]
    '0.9*top+0.1*shuffle'
    """
    content = {"schema": EXPLORATION, "policy": spec.text, **(notes or {})}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _describe(policy: Policy, name: str, arrays: dict[str, NDArray[Any]]) -> Json:
    """Return the header entry of a policy; its arrays are added to `arrays` under `name`."""
    kind = type(policy).__name__
    if (
        not isinstance(policy, ArrayPolicy)
        or kind not in kinds()
        or type(policy) is not policy_class(kind)
    ):
        raise PolicyError(
            f"{kind} cannot be stored, because it is not made of arrays; store its scores or "
            "probabilities instead"
        )
    entry: Json = {"kind": kind, "name": name, "fields": []}
    for field in (*policy.row_fields, *policy.shared_fields):
        value = getattr(policy, field)
        if field == "components":
            components = enumerate(value)
            entry[field] = [
                _describe(component, f"{name}.{c}", arrays) for c, component in components
            ]
        else:
            arrays[f"{name}.{field}"] = np.asarray(value)
            entry["fields"].append(field)
    return entry


def _build(entry: Json, archive: Any) -> Policy:
    fields: dict[str, Field] = {}
    for field in entry["fields"]:
        values = archive[f"{entry['name']}.{field}"]
        if values.dtype not in _NUMBERS:
            raise PolicyError(
                f"the stored field '{field}' holds {values.dtype} values, not numbers"
            )
        fields[field] = values.item() if values.ndim == 0 else values
    if "components" in entry:
        fields["components"] = [_build(component, archive) for component in entry["components"]]
    return policy_class(entry["kind"]).from_fields(fields)
