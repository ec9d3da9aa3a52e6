"""Every public door, every argument, every wrong kind: a sentence, never a foreign error.

A door is a call that works and the arguments that it works with. Each argument in turn becomes each of the wrong
values; the call may then work (None means "the default" in places) or be refused, and nothing else.
"""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trimtab
from bench_stores import make_store
from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import MCP, Classifier, FeatureStore, Stream, Task, TrimtabError, data, engine, prompts
from trimtab.checks import check_method, random_stream
from trimtab.data import orders
from trimtab.features import StoreInfo, encode, import_npz, write_arrays
from trimtab.images.decode import decode
from trimtab.images.loader import ViewLoader
from trimtab.images.views import make_views
from trimtab.study import bench, feature_map, metrics, theory, tune
from trimtab.study.ablations import make_ablation, study_by_name
from trimtab.study.bench.tuned import TunedParameters
from trimtab.study.report import write_report

WRONG = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "NaN": math.nan,
    "empty string": "",
    "nonsense": "nonsense",
    "a NUL": "a\0b",
    "half a character": "\ud800",
    "bytes": b"x",
    "empty list": [],
    "list of None": [None, None],
    "list of lists": [["a"], ["a"]],
    "list of half a character": ["a", "\ud800"],
    "generator": (name for name in "ab"),
    "list of empty strings": ["", " "],
    "ragged": [[1.0], [1.0, 2.0]],
    "dict": {},
    "object": object(),
    "class": int,
    "set": {1},
    "array of no axes": np.array(1.0),
    "array of four axes": np.zeros((2, 2, 2, 2)),
    "complex array": np.zeros(3, complex),
    "array of strings": np.array(["a", "b"]),
    "array of objects": np.array([None, {}], object),
    "path of nothing": Path("/dev/null/nowhere"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """What the doors need: a store, an .npz file, images, a task."""
    folder = tmp_path_factory.mktemp("doors")
    store = make_store(folder / "store", images=40, views=2)
    np.savez(
        folder / "f.npz",
        features=store.rows([0, 1, 2])[:, 0],
        text=store.text_prototypes,
        class_names=store.class_names,
    )
    (folder / "images").mkdir()
    for number, name in enumerate(COLORS):
        (folder / "images" / name).mkdir()
        Image.fromarray(colored(name, number)).save(folder / "images" / name / "1.png")
    task, features = random_stream(classes=4, dim=8, views=2, images=6, seed=0)
    bench.run_plan(bench.make_plan([store.path], ["zero_shot"], seeds=1), folder / "results", workers=1)
    return {"folder": folder, "store": store, "task": task, "features": features}


def doors(world):
    folder, store, task, features = (world[name] for name in ("folder", "store", "task", "features"))
    encoder, labels = ColorEncoder(), list(COLORS)
    classifier = Classifier(encoder, labels, views=2)
    stream = MCP().start(task)
    indices, many = np.arange(40) % 4, [*("ab" * 20)]
    images = data.image_folder(folder / "images")
    state = folder / "state"
    stream.save(state)
    guarded, merging = MCP().start(task, trimtab.Guard()), trimtab.MergingStream(MCP().start(task))
    guarded.run(features)
    merging.run(features, list("abcdef"), range(6))
    merging.save(folder / "merging")
    parts = stream.copy().run(features).parts
    truth = np.zeros(len(features), int)
    bank = engine.Bank(4, 8, {"some": 2})
    some = bank.sections["some"]
    text = np.asarray(task.text_prototypes)
    info = {name: getattr(store.info, name) for name in StoreInfo.__dataclass_fields__}
    arrays = {"features": features, "labels": truth % 4, "text": text, "class_names": task.class_names}
    return {
        # trimtab
        "Task": (Task, {"class_names": task.class_names, "text_prototypes": text, "logit_scale": 20.0}),
        "Classifier": (
            Classifier,
            {
                "encoder": encoder,
                "labels": labels,
                "method": "mcp",
                "templates": "photo",
                "cupl": None,
                "views": 1,
                "seed": 0,
            },
        ),
        "classify": (classifier.classify, {"image": colored("red", 1), "top": 2}),
        "Classifier.features": (classifier.features, {"image": colored("red", 1)}),
        "Classifier.save": (classifier.save, {"path": folder / "classifier"}),
        "Classifier.load": (classifier.load, {"path": folder / "classifier"}),
        "Stream": (Stream, {"method": MCP(), "task": task}),
        "start": (MCP().start, {"task": task}),
        "step": (stream.step, {"views": features[0]}),
        "predict": (stream.predict, {"views": features[0]}),
        "run": (stream.run, {"features": features, "block": 4, "keep_parts": True, "progress": None}),
        "guarded step": (guarded.step, {"views": features[0], "source": "a"}),
        "guarded run": (guarded.run, {"features": features[:2], "sources": ["a", None]}),
        "guarded run of one": (guarded.run, {"features": features[:1], "sources": ["a"]}),
        "forget": (guarded.forget, {"source": "a"}),
        "evict": (guarded.evict, {"position": 0}),
        "why": (guarded.why, {"position": 0}),
        "why without a guard": (stream.why, {"position": 0}),
        "run_top": (trimtab.run_top, {"stream": stream, "features": features, "k": 2}),
        "shortlist": (trimtab.shortlist, {"task": task, "features": features, "k": 2}),
        "MergingStream": (trimtab.MergingStream, {"stream": MCP().start(task)}),
        "MergingStream.run": (
            merging.run,
            {"features": features[:2], "sources": ["a", "b"], "times": [0, 1], "block": 4, "keep_parts": False},
        ),
        "merge": (trimtab.merge, {"streams": [merging]}),
        "MergingStream.save": (merging.save, {"path": folder / "merging"}),
        "MergingStream.load": (
            trimtab.MergingStream.load,
            {"path": folder / "merging", "task": task, "views_of": lambda _: features[0], "method": MCP()},
        ),
        "AdaptiveClassifier.predict": (trimtab.AdaptiveClassifier(task).predict, {"X": features}),
        "save": (stream.save, {"path": state}),
        "load": (Stream.load, {"path": state, "task": task, "method": MCP()}),
        "load_encoder": (trimtab.load_encoder, {"name": "onnx:/nowhere", "device": "cpu", "precision": "fp32"}),
        "make_method": (lambda name: trimtab.make_method(name), {"name": "mcp"}),
        "preset": (trimtab.preset, {"method": "tda", "dataset": "eurosat"}),
        "oracle_weights": (trimtab.oracle_weights, {"parts": parts, "labels": truth}),
        "check_method": (check_method, {"method": MCP(), "classes": 3, "dim": 8, "images": 12, "seed": 0}),
        **{
            f"parameters of {name}": (type(method), method.parameters())
            for name in trimtab.list_methods()
            if (method := trimtab.make_method(name)).parameters()
        },
        # trimtab.features
        "open": (FeatureStore.open, {"path": store.path, "encoder": None, "class_names": None, "verify": False}),
        "rows": (store.rows, {"selection": [0, 1]}),
        "blocks": (lambda size: list(store.blocks(size)), {"size": 7}),
        "write_arrays": (
            lambda **given: write_arrays(folder / "written", **given),
            arrays
            | {"logit_scale": 20.0, "ids": None, "domains": None, "dataset": "d", "encoder": "e", "dtype": "float16"},
        ),
        "write_arrays.path": (lambda path: write_arrays(path, **arrays), {"path": folder / "written"}),
        "StoreInfo": (StoreInfo, info),
        "import_npz": (import_npz, {"path": folder / "f.npz", "out": folder / "imported"}),
        "encode_images": (
            encode.encode_images,
            {"image_set": images, "encoder": encoder, "out": folder / "encoded", "views": 1, "seed": 0, "augmix": False}
            | {"dtype": "float16", "templates": None, "cupl": None, "limit": None, "batch": 8, "workers": 1},
        ),
        # trimtab.images
        "decode": (decode, {"source": folder / "images" / "red" / "1.png"}),
        "make_views": (make_views, {"image": colored("red", 1), "size": 16, "views": 2, "seed": 0}),
        "ViewLoader": (
            ViewLoader,
            {"load": images.load, "indices": [0], "size": 16, "views": 1, "seed": 0, "batch": 8, "workers": 1},
        ),
        # trimtab.prompts
        "text_prototypes": (
            prompts.text_prototypes,
            {"encoder": encoder, "class_names": labels, "templates": "photo", "cupl": None},
        ),
        "prompts_for": (prompts.prompts_for, {"class_names": labels, "templates": "photo", "cupl": None}),
        "templates_for": (prompts.templates_for, {"choice": "photo", "dataset": None}),
        "read_cupl": (prompts.read_cupl, {"path": "/nowhere.json"}),
        "words_of": (prompts.words_of, {"class_name": "tabby_cat"}),
        "distinct_names": (prompts.distinct_names, {"names": labels}),
        # trimtab.data
        "load_dataset": (data.load_dataset, {"name": f"folder:{folder / 'images'}", "root": None}),
        "image_folder": (data.image_folder, {"folder": folder / "images", "class_names": None}),
        "unlabeled_images": (data.unlabeled_images, {"folder": folder / "images", "class_names": None}),
        "joined": (data.joined, {"sets": [images], "name": None}),
        "corrupted": (data.corrupted, {"images": images, "kind": "noise", "strength": 1, "seed": 0}),
        "check_class_order": (
            data.check_class_order,
            {"labels": indices, "predictions": indices, "class_names": labels},
        ),
        "order_by_name": (
            data.order_by_name,
            {"name": "domain-sequence", "labels": indices, "domains": many, "seed": 0},
        ),
        "as_stored": (orders.as_stored, {"count": 3}),
        "shuffled": (orders.shuffled, {"count": 3, "seed": 0}),
        "class_sorted": (orders.class_sorted, {"labels": indices, "seed": 0}),
        "dirichlet": (orders.dirichlet, {"labels": indices, "alpha": 0.1, "seed": 0, "slots": None}),
        "domain_sequence": (orders.domain_sequence, {"domains": many, "seed": 0, "which": None}),
        "domain_mixture": (orders.domain_mixture, {"domains": many, "seed": 0, "which": None}),
        "long_tailed": (orders.long_tailed, {"labels": indices, "imbalance": 3.0, "seed": 0}),
        "few_classes": (orders.few_classes, {"labels": indices, "at_a_time": 2, "seed": 0}),
        "held_out_classes": (orders.held_out_classes, {"labels": indices, "share": 0.5, "seed": 0}),
        "mixed_with_unknown": (
            orders.mixed_with_unknown,
            {"labels": indices, "unknown_count": 5, "share": 0.5, "seed": 0},
        ),
        # trimtab.engine: what a method builds its state from
        "Bank": (engine.Bank, {"classes": 3, "dim": 4, "sections": {"some": 2}, "anchors": None}),
        "Prototypes": (engine.Prototypes, {"bank": bank, "slots": some}),
        "MeanProducts": (engine.MeanProducts, {"bank": bank, "slots": some}),
        "AffinitySums": (
            engine.AffinitySums,
            {"bank": bank, "slots": some, "alpha": 1.0, "beta": 1.0},
        ),
        # trimtab.study
        "score": (metrics.score, {"probabilities": np.full((6, 4), 0.25, np.float32), "labels": truth, "bins": 5}),
        "make_plan": (
            bench.make_plan,
            {
                "stores": [store.path],
                "methods": ["zero_shot"],
                "orders": ["shuffled"],
                "seeds": 1,
                "weights": ["fixed"],
            },
        ),
        "read_record": (bench.read_record, {"path": folder / "plan.json"}),
        "read_results": (bench.read_results, {"folder": folder / "results"}),
        "TunedParameters.load": (TunedParameters.load, {"path": folder / "t.json"}),
        "tune": (
            tune.tune,
            {
                "path": store.path,
                "method": "mcp",
                "trials": 1,
                "images": 8,
                "holdout": 0.0,
                "order": "shuffled",
                "seed": 0,
            },
        ),
        "check_theory": (
            theory.check_theory,
            {"store": store, "method": None, "order": "shuffled", "seed": 0, "beta": 1.0},
        ),
        "map_features": (
            feature_map.map_features,
            {"store": store, "method": MCP(), "classes": (0, 1), "projection": "pca", "order": "shuffled", "seed": 0},
        ),
        "study_by_name": (study_by_name, {"name": "caches"}),
        "make_ablation": (make_ablation, {"name": "caches", "store": store.path, "seeds": 1}),
        "write_report": (lambda results: write_report(results), {"results": None}),  # the figures take seconds
    }


def test_wrong_kinds_are_refused_with_a_sentence(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "nonsense" is a path that can be written
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    foreign = []
    for name, (call, given) in doors(world).items():
        for argument, what in product(given, WRONG):
            try:
                call(**{**given, argument: WRONG[what]})
            except TrimtabError as error:
                if not str(error) or "\n" in str(error):
                    foreign.append(f"{name}({argument}={what}) is not one sentence: {error}")
            except Exception as error:
                foreign.append(f"{name}({argument}={what}) raises {type(error).__name__}: {str(error)[:100]}")
    assert not foreign, "\n".join([f"{len(foreign)} calls", *foreign])


@pytest.mark.parametrize(
    ("door", "argument", "value", "words"),
    [
        ("Task", "class_names", ["a", "", "c", "d"], "class_names must hold names that are not empty; item 1 is ''"),
        ("Task", "class_names", ["a", 1, "c", "d"], "class_names must hold strings; item 1 is 1"),
        ("Task", "logit_scale", True, "logit_scale must be a positive number, not True"),
        ("Task", "text_prototypes", "many", "text_prototypes must be an array of numbers"),
        ("Classifier", "labels", ["red", " "], "labels must hold names that are not empty; item 1 is ' '"),
        ("Classifier", "views", 1.5, "views must be a whole number of at least 1, not 1.5"),
        ("Classifier", "views", True, "views must be a whole number of at least 1, not True"),
        ("Classifier", "seed", "1", "seed must be a whole number from 0 to 4294967295, not '1'"),
        ("Classifier", "method", MCP, "method must be a method's name or a method such as MCP.., not the class MCP"),
        ("Classifier", "encoder", 7, "encoder must be an encoder's name or an encoder, not 7"),
        ("classify", "top", -1, "top must be a whole number of at least 1, not -1"),
        ("classify", "top", 0, "top must be a whole number of at least 1, not 0"),
        ("run", "block", 0, "block must be a whole number of at least 1, not 0"),
        ("guarded run of one", "sources", [], "sources must name one source .or None. for each of the 1 images"),
        ("guarded run of one", "sources", {"a": 1}, "sources must name one source .or None. for each of the 1 images"),
        ("guarded run of one", "sources", [["a"]], "a source must be a word or a sentence"),
        ("guarded step", "source", "\ud800", "a source holds half a character"),
        ("forget", "source", "\ud800", "source holds half a character"),
        ("why without a guard", "position", 99, "There is no image 99, counted from 0"),
        ("Task", "class_names", ["a", "\ud800", "c", "d"], "item 1 of class_names holds half a character"),
        ("Classifier", "labels", ["red", "\ud800"], "item 1 of labels holds half a character"),
        ("save", "path", "\ud800", "path is .*, which no file here can be called; name another"),
        ("save", "path", None, "path must be a path .a string or a pathlib.Path., not None"),
        ("write_arrays", "labels", [0.5] * 6, "labels must be whole numbers; item 0 is 0.5"),
        ("order_by_name", "labels", [0.5] * 40, "labels must be whole numbers; item 0 is 0.5"),
        ("oracle_weights", "labels", [0.5] * 6, "labels must be whole numbers; item 0 is 0.5"),
        ("score", "labels", [0.5] * 6, "labels must be whole numbers; item 0 is 0.5"),
        ("score", "labels", [9] * 6, "A label is 9, but the predictions are of 4 classes"),
        ("make_plan", "seeds", 1.5, "seeds .the number of orders. must be a whole number of at least 1, not 1.5"),
        ("make_plan", "stores", "one", "stores must be a list of at least one name or path, not 'one'"),
        ("tune", "images", -1, "images must be a whole number of at least 1, not -1"),
        ("load_encoder", "precision", None, "precision must be one of fp32, fp16, bf16, int8, not None"),
    ],
)
def test_the_sentence_names_the_argument(world, door, argument, value, words):
    call, given = doors(world)[door]
    with pytest.raises(TrimtabError, match=words):
        call(**{**given, argument: value})
