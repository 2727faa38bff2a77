"""One name for the many spellings of a model and of whoever sells it.

Nothing here knows a price. A model is compared by its folded id (`fold`); the ids that one call may
be listed under come from `spellings`, most exact first. Dates and regions are taken off an id, a
part of its family name never: `gpt-5.4-mini` is neither `gpt-5` nor `gpt-5-mini`.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

OPENROUTER: Final = "openrouter"

_SAME_SELLER: Final = {
    "amazon": "bedrock",
    "amazon-bedrock": "bedrock",
    "aws": "bedrock",
    "aws-bedrock": "bedrock",
    "azure-ai": "azure",
    "azure-foundry": "azure",
    "azure-openai": "azure",
    "chatgpt": "openai-codex",
    "claude": "anthropic",
    "claude-code": "anthropic",
    "codex": "openai-codex",
    "copilot-acp": "copilot",
    "fireworks-ai": "fireworks",
    "gemini": "google",
    "github": "copilot",
    "github-copilot": "copilot",
    "github-copilot-acp": "copilot",
    "google-ai-studio": "google",
    "google-vertex": "google",
    "grok": "xai",
    "kimi": "moonshot",
    "kimi-coding": "moonshot",
    "kimi-coding-cn": "moonshot-cn",
    "kimi-for-coding": "moonshot",
    "llama-cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
    "lm-studio": "lmstudio",
    "minimaxai": "minimax",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "nous-portal": "nous",
    "novita-ai": "novita",
    "open-router": OPENROUTER,
    "openai-api": "openai",
    "together-ai": "together",
    "vertex": "google",
    "vertex-ai": "google",
    "x-ai": "xai",
    "x.ai": "xai",
    "z-ai": "zai",
    "z.ai": "zai",
    "zai-org": "zai",
}
"""Names of the host, of OpenRouter's vendors and of people for one and the same seller."""

_SELLER_OF_HOST: Final = {
    "amazonaws.com": "bedrock",
    "aiplatform.googleapis.com": "google",
    "api.anthropic.com": "anthropic",
    "api.arcee.ai": "arcee",
    "api.cerebras.ai": "cerebras",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.fireworks.ai": "fireworks",
    "api.githubcopilot.com": "copilot",
    "api.groq.com": "groq",
    "api.kimi.com": "kimi-coding-plan",
    "api.meta.ai": "meta",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax-cn",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot-cn",
    "api.novita.ai": "novita",
    "api.openai.com": "openai",
    "api.perplexity.ai": "perplexity",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "api.x.ai": "xai",
    "api.z.ai": "zai",
    "chatgpt.com": "openai-codex",
    "generativelanguage.googleapis.com": "google",
    "inference-api.nousresearch.com": "nous",
    "ollama.com": "ollama-cloud",
    "openai.azure.com": "azure",
    "openrouter.ai": OPENROUTER,
    "services.ai.azure.com": "azure",
}

LIST_PRICE_OF: Final = {
    "alibaba-coding-plan": "alibaba",
    "kimi-coding-plan": "moonshot",
    "minimax-oauth": "minimax",
    "ollama-cloud": "",
    "openai-codex": "openai",
    "opencode-go": "",
    "qwen-oauth": "alibaba",
    "xai-oauth": "xai",
    "zai-coding-plan": "zai",
}
"""Subscriptions: nothing is billed per call. The value sells the same models by the token, so that
the notional price can be shown beside the charge of 0."""

RESELLS: Final = {
    "azure": ("openai", "anthropic", "xai", "deepseek", "moonshot"),
    "google": ("anthropic",),
    "minimax-cn": ("minimax",),
    "moonshot-cn": ("moonshot",),
}
"""Whose models are offered under their bare ids, at about the maker's list price."""

_NOBODY: Final = frozenset({"", "auto", "unknown"})
"""Provider names that name nobody. Only then is the seller taken from the model's id: an endpoint
of one's own (`custom`) may pass a model on at any price."""

_OWN_MACHINE: Final = frozenset(
    {
        "koboldcpp",
        "llama.cpp",
        "lmstudio",
        "mlx",
        "ollama",
        "sglang",
        "text-generation-webui",
        "vllm",
    }
)
"""Programs that run a model on the user's own hardware."""

_LOCAL_PORTS: Final = frozenset({11434, 1234})
"""Ollama and LM Studio. Other ports say nothing: a proxy on loopback may well be billed."""

_LOCAL_NAMES: Final = frozenset({"localhost", "host.docker.internal"})

_PATH: Final = re.compile(r"^(?:arn:.*/|(?:.*/)?models/)")
_ISO_DATE: Final = re.compile(r"-(20\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?=$|[-:])")
_DATE: Final = re.compile(r"-20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$")
_VERSION_DOT: Final = re.compile(r"(?<=\d)\.(?=\d)")
_ROUTING: Final = re.compile(r":(?:nitro|floor|exacto|online)$")
_BEDROCK: Final = re.compile(
    r"^(?P<region>(?:global|us|eu|apac|jp|au|in|ca|sa|me)\.)?"
    r"(?P<vendor>ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshotai"
    r"|moonshot|nvidia|openai|qwen|writer|xai|zai)\.(?P<model>.+)$"
)
_REVISION: Final = re.compile(r"(?:-v\d+)?(?::\d+)?$")


def fold(model: str) -> str:
    """The id that spellings share: lower case, `4.5` as `4-5`, `2025-08-07` as `20250807`."""
    name = _PATH.sub("", model.strip().lower()).replace("@default", "").replace("@", "-")
    return _VERSION_DOT.sub("-", _ISO_DATE.sub(r"-\1\2\3", name))


def provider_id(name: str) -> str:
    """The one name of a seller; an unknown name stands for itself. `custom:box` is `custom`."""
    key = name.strip().lower().replace("_", "-").partition(":")[0]
    return _SAME_SELLER.get(key, key)


def seller(provider: str, base_url: str, model: str) -> str:
    """Who bills the call: the endpoint if it is a known one, else the provider's name, else the id.

    A subscription keeps its name, since it may share the endpoint of the metered service.
    """
    named = provider_id(provider)
    url = _split(base_url)
    if named in LIST_PRICE_OF:
        return named
    if by_host := _seller_of(url):
        return "zai-coding-plan" if by_host == "zai" and "/coding/" in url.path else by_host
    return (_seller_in(fold(model)) or named) if named in _NOBODY and not base_url else named


def _seller_in(folded: str) -> str:
    """`openrouter/anthropic/x` → openrouter, `us.anthropic.x` → bedrock, `x` → nobody."""
    head, slash, _ = folded.partition("/")
    if slash:
        return provider_id(head)
    return "bedrock" if _BEDROCK.match(folded) else ""


def spellings(provider: str, model: str) -> tuple[str, ...]:
    """Folded ids that this seller may list the model under, most exact first.

    The seller's own prefix, the vendor's prefix, a snapshot's date and, on Bedrock, region and
    revision come off one after another.
    """
    name = fold(model)
    own = _without_own_prefix(provider, name)
    names = (name, own, own.rpartition("/")[2])
    return _unique(form for each in names for form in _undated(each))


def _undated(name: str) -> tuple[str, ...]:
    bedrock = _BEDROCK.match(name)
    if bedrock is None:
        return name, _DATE.sub("", name)
    # A call through `global.` is sold at another price than one bound to a region.
    bare = name if bedrock["region"] == "global." else name.removeprefix(bedrock["region"] or "")
    forms = [form for each in (name, bare) for form in (each, _REVISION.sub("", each))]
    return (*forms, *(_DATE.sub("", form) for form in forms))


def vendor_spellings(provider: str, model: str) -> tuple[tuple[str, str], ...]:
    """`(maker, folded id)` of a model that this seller passes on, when the id names its maker."""
    name = _without_own_prefix(provider, fold(model))
    if bedrock := _BEDROCK.match(name):
        maker, bare = bedrock["vendor"], _REVISION.sub("", bedrock["model"])
        return _sold_by((provider_id(maker),), bare)
    head, slash, rest = name.partition("/")
    if slash:
        return _sold_by((provider_id(head),), rest)
    return _sold_by(RESELLS.get(provider, ()), name)


def _sold_by(makers: tuple[str, ...], name: str) -> tuple[tuple[str, str], ...]:
    return tuple((maker, form) for maker in makers for form in _unique((name, _DATE.sub("", name))))


def _without_own_prefix(provider: str, name: str) -> str:
    head, slash, rest = name.partition("/")
    return rest if slash and provider_id(head) == provider else name


def without_routing(model: str) -> str:
    """The id without OpenRouter's `:nitro`, `:floor`, `:exacto` or `:online`."""
    return _ROUTING.sub("", model.strip().lower())


def is_free_variant(model: str) -> bool:
    """Whether the id itself says that nothing is charged (`deepseek/deepseek-r1:free`)."""
    return model.strip().lower().endswith(":free")


def runs_locally(provider: str, base_url: str, model: str) -> bool:
    """Whether the call runs on the user's own hardware, so that nobody bills it.

    A loopback address alone is no proof, and a public one is the opposite. Ollama's `…cloud` tags
    run elsewhere.
    """
    folded = fold(model)
    url = _split(base_url)
    private = _is_private(url.hostname or "")
    if folded.rpartition(":")[2].endswith("cloud") or (url.hostname and not private):
        return False
    named = provider_id(provider) in _OWN_MACHINE or folded.startswith("ollama/")
    return named or (private and _port(url) in _LOCAL_PORTS)


def _seller_of(url: SplitResult) -> str:
    host = url.hostname or ""
    for known, name in _SELLER_OF_HOST.items():
        if host == known or host.endswith(("." + known, "-" + known)):
            return name
    return ""


def _is_private(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host in _LOCAL_NAMES or host.endswith(".local")


def _split(base_url: str) -> SplitResult:
    try:
        text = base_url.strip()
        return urlsplit(text if "//" in text else f"//{text}")
    except ValueError:
        return urlsplit("")


def _port(url: SplitResult) -> int | None:
    try:
        return url.port
    except ValueError:
        return None


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
