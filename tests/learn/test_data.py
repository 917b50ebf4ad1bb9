# SPDX-License-Identifier: BSD-3-Clause
"""Data files: parsing, and errors that name file, row and column."""

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from hikyaku.errors import HikyakuError
from hikyaku.learn import data, job, result, samples, shard
from hikyaku.learn.native import Model

SAMPLES = {
    "line": "24531847dfd3b97754376b9188f7ba761e50340a0d341ef54bb2a7e867336e5f",
    "classes": "f3b1737596c65b8b32bfb774563f7ddb91094ac91dc0a928e23cd88f5b83788b",
}


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_csv_with_names_and_classes(tmp_path: Path) -> None:
    got = data.read(write(tmp_path, "a.csv", "p,q,kind\n1,2,b\n3,4.5,a\n\n-1e2,0,b\n"))
    assert got.features == ["p", "q"]
    assert got.classes == ["a", "b"]
    assert got.x.tolist() == [[1, 2], [3, 4.5], [-100, 0]]
    assert got.y.tolist() == [1, 0, 1]


def test_csv_without_names_and_a_target_by_number(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1.5,2,3\n2.5,5,6\n")
    got = data.read(path, target="1")
    assert got.classes is None
    assert got.features == ["column 2", "column 3"]
    assert got.y.tolist() == [1.5, 2.5]
    assert data.read(path, target="column 2", task="regression").y.tolist() == [2, 5]


def test_svmlight(tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", "# two rows\n+1 1:0.5 3:2 # c\n-1 qid:4 2:1\n")
    got = data.read(path)
    assert got.x.tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert got.classes == ["-1", "1"]
    assert got.y.tolist() == [1, 0]


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, 2, 0.5], [3, 4, 1.5]]))
    got = data.read(tmp_path / "a.npy")
    assert got.x.tolist() == [[1, 2], [3, 4]]
    assert got.y.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "p,q\n1,2\n3,\n", r"a\.csv, row 3, column 2 \(q\): the value is missing"),
        ("a.csv", "p,q\n1,2\nNA,4\n", r"row 3, column 1 \(p\): the value is missing"),
        ("a.csv", "p,q,r\n1,2,3\n4,red,6\n", r"row 3, column 2 \(q\): 'red' is not a finite"),
        ("a.csv", "p,q,r\n1,2,3\n4,inf,6\n", r"row 3, column 2 \(q\): 'inf' is not a finite"),
        ("a.csv", "1,2,3\n4,5\n", r"row 2: 2 columns, and the first row has 3; fix: write 3"),
        ("a.csv", "1\n2\n", r"has 1 column"),
        ("a.csv", "p,q\n", r"has no row"),
        ("a.csv", "", r"has no row"),
        ("a.csv", "p,k\n1,a\n2,a\n", r"all 2 rows are of one class, 'a'"),
        ("a.svm", "1 2:x\n", r"a\.svm, row 1: '2:x' is not NUMBER:VALUE"),
        ("a.svm", "1 1:1\n0 2:1 1:1\n", r"row 2: feature 1 after 2"),
        ("a.svm", "1:1 2:1\n", r"row 1: the target is missing"),
        ("a.svm", "1\n0\n", r"no row has a feature"),
        ("a.svm", "1 1:1\n1 99999999999:1\n", r"row 2: feature 99999999999; fix: .* to 65536"),
        ("a.svm", "# nothing\n", r"has no row"),
        ("a.npy", "no numpy", r"is not a \.npy file of numbers"),
        ("a.txt", "1,2\n", r"has an unknown suffix"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(HikyakuError, match=said) as raised:
        data.read(write(tmp_path, name, text))
    assert raised.value.fix


def test_npy_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1.0, 2], [np.nan, 4]]))
    with pytest.raises(HikyakuError, match=r"row 2, column 1: nan is not a finite"):
        data.read(path)
    np.save(path, np.array([1.0, 2]))
    with pytest.raises(HikyakuError, match=r"of shape \(2,\)"):
        data.read(path)
    np.save(path, np.array([["a", "b"]]))
    with pytest.raises(HikyakuError, match="a table of numbers"):
        data.read(path)
    np.save(path, np.array([[{}, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(HikyakuError, match=r"not a \.npy file of numbers"):
        data.read(path)


def test_targets_and_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "p,q\n1,2\n2,3\n")
    with pytest.raises(HikyakuError, match="has no column 'z'"):
        data.read(path, target="z")
    assert data.read(path).classes == ["2", "3"]
    assert data.read(path, task="regression").classes is None
    text = write(tmp_path, "b.csv", "p,q\n1,x\n2,y\n")
    with pytest.raises(HikyakuError, match="row 1 of the data: the target 'x'"):
        data.read(text, task="regression")
    path = write(tmp_path, "c.csv", "p,q\n1,2\n2,3\n3,2\n4,3\n")
    refused = [
        ("linear", data.read(text), "--model logistic, svm or mlp"),
        ("linear", data.read(path), "--model logistic, svm or mlp; or --task regression"),
        ("svm", data.read(path, task="regression"), "--model linear or mlp; or --task classif"),
    ]
    for kind, read, fix in refused:
        with pytest.raises(HikyakuError) as found:
            job.check(job.Plan(read, kind, 2))
        assert found.value.fix.startswith(fix)
        assert ("; or" in fix) == ("; or" in found.value.fix), "text cannot be a number"


def test_more_classes_than_a_classifier_takes(tmp_path: Path) -> None:
    count = data.CLASSES_MAX + 1
    path = write(tmp_path, "a.csv", "p,q\n" + "".join(f"1,{i + 0.5}\n" for i in range(count)))
    with pytest.raises(HikyakuError, match=f"{count} classes; .*fix: --task regression"):
        data.read(path, task="classification")
    with pytest.raises(HikyakuError, match=r"fix: --model linear or mlp$"):
        job.check(job.Plan(data.read(path), "svm", 2))
    text = write(tmp_path, "b.csv", "p,q\n" + "".join(f"1,x{i}\n" for i in range(count)))
    with pytest.raises(HikyakuError, match=f"{count} classes; .*fix: another column by --target"):
        data.read(text)


def test_more_nodes_than_rows() -> None:
    with pytest.raises(HikyakuError, match="3 nodes, and the data has 2 rows"):
        data.split(2, 3, 1)
    parts = data.split(10, 3, 1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))
    assert [len(p) for p in parts] == [4, 3, 3]


def test_scaling_of_a_column_that_does_not_vary() -> None:
    x = np.array([[1e9, 1.0], [1e9, 2.0]])
    scaled = data.Scaling.of(x, np.zeros(2), regression=True)
    assert np.array_equal(scaled.x(x), [[0, -1], [0, 1]])
    assert scaled.y_scale == 1


def test_shard_is_as_c_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    shard.write(path, np.ones((2, 3)), np.array([0.0, 1]), classes=2, node=1, nodes=4, total=8)
    raw = path.read_bytes()
    assert struct.unpack_from("<8sIIQQII", raw) == (b"HKSHARD1", 3, 2, 2, 8, 1, 4)
    words = np.frombuffer(raw, "<u8", offset=48)
    assert struct.unpack_from("<Q", raw, 40)[0] == sum(words.tolist()) % 2**64
    assert len(raw) == 48 + 8 * 8


def test_the_model_file_needs_numpy_alone(tmp_path: Path) -> None:
    got = data.from_csv(Path("line.csv"), samples.line())
    scaling = data.Scaling.of(got.x, got.y, regression=True)
    model = Model("linear", got.x.shape[1])
    w = np.random.default_rng(0).normal(size=model.parameters)
    result.write_model(tmp_path / "m.npz", result.arrays(model, w, scaling, got, 0.5))
    with np.load(tmp_path / "m.npz", allow_pickle=False) as kept:
        direct = got.x @ kept["coef"][0] + kept["intercept"][0]
        scaled = ((got.x - kept["mean"]) / kept["scale"]) @ kept["weight"][0] + kept["bias"][0]
        names = kept["features"].tolist()
        undone = scaled * kept["y_scale"] + kept["y_mean"]
    assert names == got.features
    assert direct == pytest.approx(undone)
    assert direct == pytest.approx(result.predict(model, w, scaling, got.x))


def test_no_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("before")

    def fail(part: Path) -> None:
        part.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        result.write_whole(path, fail)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_the_same_everywhere(name: str) -> None:
    """The seed makes exactly the same bytes as when the samples were files."""
    text = "".join(f"{line}\n" for line in getattr(samples, name)())
    assert hashlib.sha256(text.encode()).hexdigest() == SAMPLES[name]
