"""Version, licence and supported Pythons are the same everywhere."""

from __future__ import annotations

import re
import tomllib

import yaml

import noxfile
from kata.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_names_the_projects_version_and_licence():
    assert (CITATION["version"], CITATION["license"]) == (PROJECT["version"], PROJECT["license"])


def test_authors_and_licence_name_the_same_holder():
    (author,) = PROJECT["authors"]
    assert CITATION["authors"] == [author]
    assert f", {author['name']}\n" in (ROOT / "LICENSE").read_text()


def test_the_classifiers_list_the_pythons_that_are_tried():
    classifiers = " ".join(PROJECT["classifiers"])
    assert re.findall(r"Python :: (3\.\d+)", classifiers) == list(noxfile.PYTHONS)
    assert PROJECT["requires-python"] == f">={noxfile.PYTHONS[0]}"
