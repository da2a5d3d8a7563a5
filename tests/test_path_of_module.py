"""Provisional."""

from torch import nn

from tests.suite import equal, refuses


def test_the_root_is_the_empty_string(lesson):
    tracer = lesson.PathOfModule()
    tracer.root = nn.Sequential(nn.ReLU())
    equal(tracer.path_of_module(tracer.root), "", cause="c", hint="h")


def test_a_foreign_module_is_refused(lesson):
    tracer = lesson.PathOfModule()
    tracer.root = nn.Sequential(nn.ReLU())
    with refuses(NameError, "ReLU", "Sequential"):
        tracer.path_of_module(nn.ReLU())
