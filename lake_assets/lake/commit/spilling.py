"""Where DuckDB keeps the rows of a large comparison that exceed its memory."""

import tempfile
import uuid
from pathlib import Path

from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession

_NAME = "lake-assets-spill-"


def prepare_spilling(session: LakeSession) -> None:
    """Let the lake's engine spill to the system's folder of temporary files, not to the current folder.

    DuckDB creates the folder when it needs it, and removes it. The folder of an engine cannot change after its first
    use. The spilled rows of an encrypted lake are encrypted.
    """
    with translated(session.config):
        engine = session.connection
        ((folder,),) = engine.execute("SELECT current_setting('temp_directory')").fetchall()
        if _NAME in str(folder):
            return
        if session.config.is_encrypted:
            engine.execute("SET GLOBAL temp_file_encryption = true")
        engine.execute("SET GLOBAL temp_directory = ?", [str(Path(tempfile.gettempdir(), _NAME + uuid.uuid4().hex))])
