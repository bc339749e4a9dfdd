"""The package around the policies: lazy names, storage, supersets."""

import json
import subprocess
import sys

import numpy as np
import pytest

from counterrank import policies
from counterrank.common.errors import PolicyError, PropensityError
from counterrank.policies import PlackettLuce, Uniform, load_policy, save_policy, superset_mask
from counterrank.policies.storage import FORMAT, REGISTRY, policy_class


def test_importing_the_package_is_light():
    code = (
        "import sys, counterrank.policies as p; p.Softmax; p.PlackettLuce; p.Mixture;"
        "print(sorted({'numba', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves():
    assert all(hasattr(policies, name) for name in policies.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        policies.Nothing  # noqa: B018
    for kind in REGISTRY:
        assert policy_class(kind.__name__) is kind
        assert kind.__name__ in policies.__all__


def test_supersets():
    masks = np.array([[[False, True, False]], [[True, False, False]]])
    np.testing.assert_array_equal(superset_mask(masks, "prefix")[0], [[True, True, False]])
    assert superset_mask(masks, "joint").all()
    assert superset_mask(masks, "position") is masks
    with pytest.raises(PropensityError, match="single positions only"):
        superset_mask(np.ones((1, 2), bool), "position")
    with pytest.raises(PropensityError, match="unknown capability 'all'"):
        superset_mask(masks, "all")


def write(path, header, **arrays):
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)


def test_what_is_not_a_stored_policy_is_refused(tmp_path):
    path = tmp_path / "bad.npz"
    with pytest.raises(PolicyError, match="not a stored policy"):
        load_policy(path)
    path.write_bytes(b"nothing")
    with pytest.raises(PolicyError, match="not a stored policy"):
        load_policy(path)
    np.savez(path, other=np.zeros(2))
    with pytest.raises(PolicyError, match="not a stored policy"):
        load_policy(path)
    write(path, {"format": "counterrank/policy/9", "policy": {}})
    with pytest.raises(PolicyError, match="this version reads"):
        load_policy(path)
    write(path, {"format": FORMAT, "policy": {"kind": "os.system", "name": "p", "fields": []}})
    with pytest.raises(PolicyError, match="unknown policy kind 'os.system'"):
        load_policy(path)
    entry = {"kind": "Factored", "name": "p", "fields": ["log_table"]}
    write(path, {"format": FORMAT, "policy": entry}, **{"p.log_table": np.zeros((1, 2))})
    with pytest.raises(PolicyError, match="probabilities sum to 2"):
        load_policy(path)


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "objects.npz"
    entry = {"kind": "Factored", "name": "p", "fields": ["log_table"]}
    write(
        path, {"format": FORMAT, "policy": entry}, **{"p.log_table": np.array([[{}]], dtype=object)}
    )
    with pytest.raises(PolicyError, match="not a stored policy"):
        load_policy(path)


def test_a_policy_of_ones_own_is_not_stored_under_a_known_name(tmp_path):
    class PlackettLuceTwo(PlackettLuce):
        pass

    with pytest.raises(PolicyError, match="PlackettLuceTwo cannot be stored"):
        save_policy(PlackettLuceTwo([[0.0]]), tmp_path / "p.npz")
    save_policy(Uniform(3), tmp_path / "deep" / "p.npz")
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["p.npz"]
