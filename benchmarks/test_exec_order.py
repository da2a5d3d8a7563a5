"""Execution orders, the trace included: each watcher on the tracer of its configuration."""

from __future__ import annotations

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from tests.suite import equal

TARGET = 0.65
LEAVES = Family("leaf calls watched", 1.1)


def watch(make):
    """Everything that ``exec_info`` holds after one trace."""

    def prepare(lesson) -> Call:
        model, watcher = make(), lesson.ExecOrderTracer()
        tracer = lesson.TracingConfig().tracer

        def call():
            with watcher.patch_tracer(tracer, model):
                tracer.trace(model)
            return model, watcher.exec_info

        return call

    return {"prepare": prepare, "same": same_record}


def same_record(ours, theirs) -> None:
    equal(in_words(*ours), in_words(*theirs), cause="another order, or other usages")


def in_words(model, info) -> list:
    """The record by names: two models of a kind are two models."""
    modules = {module: name for name, module in model.named_modules()}
    parameters = {parameter: name for name, parameter in model.named_parameters()}
    usages = [
        (modules[user], modules[usage.module], [name for name, _ in usage.named_params])
        for user, of_user in info.module_to_param_usage_infos.items()
        for usage in of_user
    ]
    order = [parameters[parameter] for parameter in info.param_forward_order]
    return [[modules[module] for module in info.module_forward_order], usages, order]


CASES = [
    *(
        Case(
            name,
            target=TARGET if name in ("ResNet152", "ConvNeXt-L") else None,
            quick=name == "ResNet18",
            **watch(lambda name=name: models.classifier(name)),
        )
        for name in ("ResNet18", "ResNet152", "ViT-B/16", "ConvNeXt-L")
    ),
    *sizes(
        LEAVES,
        lambda size: watch(lambda: models.leaf_calls(size)) | {"quick": False},
        {1000: None, 10_000: None},
    ),
]

test_exec_order = timed
