"""Find the model that the command names."""

from __future__ import annotations

import importlib
import sys
import warnings
from operator import attrgetter

from torch import nn

from kata.graph.errors import GraphError, did_you_mean


def build(name: str) -> nn.Module:
    """Make the model, in eval mode.

    Args:
        name: a classification model of torchvision, or ``package.module:Class``.

    Raises:
        GraphError: there is no such model, or it cannot be made without arguments.
    """
    model = imported(name) if ":" in name else torchvision_model(name)
    return model.eval()


def torchvision_model(name: str) -> nn.Module:
    from kata.torchvision_compat import torchvision

    models = torchvision.models.list_models(module=torchvision.models)
    if name not in models:
        near = did_you_mean(name, models) or " (one of your own: package.module:Class)"
        raise GraphError(f"torchvision has no classification model `{name}`{near}")
    with warnings.catch_warnings():
        # Some tell how their weights are initialised; a graph has none.
        warnings.simplefilter("ignore")
        model: nn.Module = torchvision.models.get_model(name, weights=None)
    return model


def imported(name: str) -> nn.Module:
    """The model behind ``package.module:Class``; an object that is a module is taken as it is."""
    path, _, attribute = name.partition(":")
    found = look_up(path, attribute)
    if isinstance(found, nn.Module):
        return found
    try:
        model = found() if callable(found) else found
    except Exception as error:
        raise GraphError(f"{name}() raised {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise GraphError(f"{name} gives no nn.Module but a {type(model).__name__}")
    return model


def look_up(path: str, attribute: str) -> object:
    """Import the object; the folder where the command was called comes first, as for Python."""
    sys.path.insert(0, "")
    try:
        return attrgetter(attribute)(importlib.import_module(path))
    except ImportError as error:
        raise GraphError(f"cannot import {path}: {error}") from error
    except AttributeError as error:
        raise GraphError(f"{path} has no `{attribute}`") from error
    finally:
        sys.path.remove("")
