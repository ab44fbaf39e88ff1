"""Load the data source in a Python worker of Spark, or say which package its interpreter lacks.

Workers run `PYSPARK_PYTHON`, or the `python3` of the PATH: in an environment that is not activated
that is another interpreter than the one of the driver. A class travels to them as the name of its
module, so that none of our code is there to say what is wrong if the module cannot be imported.
The functions of this module travel as code instead (`register_pickle_by_value`), and import the
class; so this module may use nothing but the standard library, imported where it is used.
"""

from typing import Any


def load_class(module: str, name: str, driver: str) -> Any:
    """Import a class; raises `ImportError` that says what the interpreter lacks.

    `driver` is the interpreter of the driver.
    """
    import importlib
    import os
    import sys

    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        lacks = f"has no package {error.name}" if error.name else f"cannot import it: {error}"
        # Spark shows a traceback otherwise. The worker ends with this error.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ImportError(
            f"the Python of Spark's workers, {sys.executable}, {lacks}; that of the driver is "
            f'{driver}. Before the session starts, set os.environ["PYSPARK_PYTHON"] = '
            "sys.executable; on a cluster, to an interpreter that has the package on every machine"
        ) from None
