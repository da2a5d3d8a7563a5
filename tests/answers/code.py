"""Answers to ``code``."""

from __future__ import annotations

import copy
import types

from torch import nn

from tests.suite.answers import around, on, right, wrong

# --- wrong: names and values ----------------------------------------------------------------------


@wrong("test_a_path_is_written_as_python_reads_it", says="isn't a path that Python")
def paths_are_written_with_dots(lesson):
    """Writes the path unchanged after the base."""
    lesson.attribute = lambda base, path: f"{base}.{path}"


@wrong("test_two_equal_objects_have_two_globals", says="compare objects by identity")
def objects_are_compared_by_equality(lesson):
    """Uses the objects as keys of a dict, which compares with ``==``."""
    original, first = lesson.CodeWriter.reference, {}

    @on(lesson.CodeWriter)
    def reference(self, value):
        return original(self, first.setdefault(value, value))


@wrong("test_an_argument_is_an_expression_for_the_value", says="its `repr` isn't Python")
def values_are_written_by_repr(lesson):
    """Uses ``repr`` for everything, but that of an enum isn't Python."""
    lesson.CodeWriter.argument = lambda self, value: repr(value)


# --- wrong: lines ---------------------------------------------------------------------------------


@wrong("test_a_call_is_written_as_torch_writes_it", says="add = x + y'")
def operators_are_functions(lesson):
    """Calls ``operator.add`` by its name."""
    lesson.OPERATORS.clear()


@wrong("test_a_call_is_written_as_torch_writes_it", says="x.relu(x)")
def a_method_gets_its_owner_twice(lesson):
    """Writes the owner before the dot and again as an argument."""

    @around(lesson.CodeWriter)
    def expression(original, self, node):
        if node.op != "call_method":
            return original(self, node)
        owner = self.argument(node.args[0])
        return f"{owner}.{node.target}({self.arguments(node.args, node.kwargs)})"


@wrong("test_placeholders_are_parameters_with_annotations_and_defaults", says="input_1 = input")
def a_parameter_is_not_given_its_node_s_name(lesson):
    """Writes nothing for a placeholder, though ``input`` is the name of a builtin."""
    statement = lesson.CodeWriter.statement
    lesson.CodeWriter.statement = lambda self, node: (
        "" if node.op == "placeholder" else statement(self, node)
    )


# --- wrong: values that are freed -----------------------------------------------------------------


@wrong("test_the_last_uses_are_those_of_torch", says="nothing is freed")
def nothing_is_freed(lesson):
    """Keeps every value until the end."""
    lesson.last_uses = lambda graph: {node: [] for node in graph.nodes}


@wrong("test_the_last_use_is_the_last_one_in_the_graph", says="x is freed by sin, and neg uses it")
def the_last_user_is_the_one_that_was_added_last(lesson):
    """Takes the last of ``users``, which are in the order in which the uses were made."""

    @on(lesson)
    def last_uses(graph):
        last = {node: [node, *node.users][-1] for node in graph.nodes}
        return {
            node: [each for each in (*node.all_input_nodes, node) if last[each] is node]
            for node in graph.nodes
        }


# --- wrong: modules -------------------------------------------------------------------------------


@wrong(
    "test_a_module_keeps_its_graph_and_runs_its_code",
    says="a function set on a module gets no `self`",
)
def the_forward_is_set_on_the_module(lesson):
    """Sets the function on the instance, where it isn't bound."""

    @on(lesson.GraphModule)
    def recompile(self):
        generated = lesson.python_code(self.graph)
        self.code = generated.src
        self.forward = lesson.compiled(generated)
        return generated


@wrong("test_each_module_has_its_own_code_name_and_meta", says="both run the same `forward`")
def all_modules_share_a_class(lesson):
    """Sets ``forward`` on ``GraphModule`` itself."""

    @around(lesson.GraphModule)
    def __init__(original, self, root, graph, class_name="GraphModule"):
        original(self, root, graph, class_name)
        lesson.GraphModule.forward = type(self).forward
        self.__class__ = lesson.GraphModule


@wrong("test_the_module_has_only_the_targets_of_the_graph", says="unused")
def the_whole_root_is_copied(lesson):
    """Installs all of the root's modules."""

    @around(lesson.GraphModule)
    def __init__(original, self, root, graph, class_name="GraphModule"):
        original(self, root, graph, class_name)
        for name, module in root.named_children() if isinstance(root, nn.Module) else ():
            setattr(self, name, module)


@wrong("test_a_deep_copy_computes_the_same_with_its_own_state", says="the parameters of the orig")
def a_deep_copy_shares_the_parameters(lesson):
    """Copies the graph, and takes everything else from the original."""

    @on(lesson.GraphModule)
    def __deepcopy__(self, memo):
        graph = copy.deepcopy(self.graph, memo)
        return type(self).__bases__[0](self, graph, type(self).__name__)


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def last_uses_from_the_users(lesson):
    """Finds the last user of each value by position."""

    @on(lesson)
    def last_uses(graph):
        position = {node: number for number, node in enumerate(graph.nodes)}
        last = {node: max([node, *node.users], key=position.__getitem__) for node in graph.nodes}
        return {
            node: [each for each in (*node.all_input_nodes, node) if last[each] is node]
            for node in graph.nodes
        }


@right(core_only=True)
def a_forward_of_the_instance(lesson):
    """Binds the function to the module instead of setting it on the class."""

    @on(lesson.GraphModule)
    def recompile(self):
        generated = lesson.python_code(self.graph)
        self.code = generated.src
        self.forward = types.MethodType(lesson.compiled(generated), self)
        return generated


@right
def a_deep_copy_by_the_constructor(lesson):
    """Copies the attributes into a plain module, and constructs a graph module from it."""

    @on(lesson.GraphModule)
    def __deepcopy__(self, memo):
        root = nn.Module()
        vars(root).update(copy.deepcopy(vars(self), memo))
        twin = type(self).__bases__[0](root, root._graph, type(self).__name__)
        twin.meta = root.meta
        return twin
