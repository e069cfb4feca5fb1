"""A griffe extension for the site: examples in fences, and settings as parameters of variants."""

import re
from typing import Any

import griffe

__all__ = ["SiteExtension", "fenced", "settings_of"]

_PROMPT = ">>> "
_VARIANT = "fedgs.registry.Variant"


def fenced(text: str) -> str:
    """The text with a fence around each doctest that stands at the left margin.

    A doctest begins with a prompt and ends at the next empty line. Those in an `Examples:` section
    are indented and left alone, since the parser of docstrings finds them.
    """
    paragraphs = re.split(r"\n{2,}", text)
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(_PROMPT) else paragraph
        for paragraph in paragraphs
    )


def settings_of(cls: griffe.Class) -> dict[str, griffe.Parameter]:
    """The fields of a variant and of its bases as keyword parameters, those of bases first."""
    found: dict[str, griffe.Parameter] = {}
    for base in reversed([cls, *cls.mro()]):
        for name, member in base.members.items():
            if not isinstance(member, griffe.Attribute) or "property" in member.labels:
                continue
            if member.annotation is None or name.startswith(("_", "model_")):
                continue
            if "instance-attribute" not in member.labels:  # a class variable
                continue
            found[name] = griffe.Parameter(
                name,
                annotation=_plain(member.annotation),
                kind=griffe.ParameterKind.keyword_only,
                default=_default(member.value, base.module),
            )
    return found


def _plain(annotation: Any) -> Any:
    """The type of a setting without the functions that check it: T of `Annotated[T, ...]`."""
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
        parts = annotation.slice
        return parts.elements[0] if isinstance(parts, griffe.ExprTuple) else parts
    if isinstance(annotation, griffe.ExprBinOp):
        left, right = _plain(annotation.left), _plain(annotation.right)
        return griffe.ExprBinOp(left, annotation.operator, right)
    return annotation


def _default(value: Any, module: griffe.Module) -> Any:
    """The default of a field: that of `Field(default=...)`, else the value itself."""
    if isinstance(value, griffe.ExprCall) and str(value.function) == "Field":
        keywords = [part for part in value.arguments if isinstance(part, griffe.ExprKeyword)]
        value = next((part.value for part in keywords if part.name == "default"), None)
    constant = module.members.get(str(value)) if str(value).startswith("_") else None
    return constant.value if isinstance(constant, griffe.Attribute) else value


class SiteExtension(griffe.Extension):
    """Fence the doctests of every docstring, and give variants the signature of their settings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object, and the annotation of an attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
        if isinstance(obj, griffe.Attribute):
            obj.annotation = _plain(obj.annotation)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Give the classes of a loaded package their signatures."""
        for module in _modules(pkg):
            for cls in module.classes.values():
                if cls.is_alias or _VARIANT not in [base.path for base in cls.mro()]:
                    continue
                parameters = griffe.Parameters(*settings_of(cls).values())
                cls.set_member("__init__", griffe.Function("__init__", parameters=parameters))


def _modules(module: griffe.Module) -> list[griffe.Module]:
    inner = [part for part in module.modules.values() if not part.is_alias]
    return [module, *(found for part in inner for found in _modules(part))]
