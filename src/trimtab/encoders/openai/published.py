"""The checkpoints that OpenAI published: their names, their checksums and where they are kept."""

import sys
import tempfile
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import ABANDONED, cache_folder, download, sha256_of, sweep

PUBLISHED = "https://openaipublic.azureedge.net/clip/models"
# The checksums are part of the addresses under which OpenAI publishes the files.
SHA256 = {
    "RN50": "afeb0e10f9e5a86da6080e35cf09123aca3b358a0c3e3b6c78a7b63bc04b6762",
    "RN101": "8fa8567bab74a42d41c5915025a8e4538c3bdbe8804a470a72f30b0d94fab599",
    "RN50x4": "7e526bd135e493cef0776de27d5f42653e6b4c8bf9e0f653bb11773263205fdd",
    "RN50x16": "52378b407f34354e150460fe41077663dd5b39c54cd0bfd2b27167a4a06ec9aa",
    "RN50x64": "be1cfb55d75a9666199fb2206c106743da0f6468c9d327f3e0d0a543a9919d9c",
    "ViT-B/32": "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af",
    "ViT-B/16": "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f",
    "ViT-L/14": "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836",
    "ViT-L/14@336px": "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02",
}


def published_checkpoint(model: str) -> Path:
    """The file of a published model, from our cache folder, from where OpenAI's package keeps it, or fetched."""
    file_name = model.replace("/", "-").replace("@", "-") + ".pt"
    ours = cache_folder("openai") / file_name
    for file in (ours, Path.home() / ".cache" / "clip" / file_name):
        if file.is_file():
            if sha256_of(file) == SHA256[model]:
                return file
            print(f"trimtab: {file} is damaged and is not used", file=sys.stderr)
    address = f"{PUBLISHED}/{SHA256[model]}/{file_name}"
    print(f"trimtab: downloading {model} from OpenAI to {ours}, once ...", file=sys.stderr)
    sweep(ours.parent, untouched=ABANDONED)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=ours.parent) as scratch:
        fetched = Path(scratch) / file_name
        try:
            download(address, fetched, model)
        except OSError as error:
            raise TrimtabError(
                f"{model} could not be downloaded ({error}); put {file_name} into {ours.parent} yourself."
            ) from error
        if sha256_of(fetched) != SHA256[model]:
            raise TrimtabError(f"What came from {address} is not {model} (wrong checksum); try again.")
        fetched.replace(ours)
    return ours
