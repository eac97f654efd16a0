"""The launcher that starts drivers as job runs of EMR Serverless.

Source: the API's reference, StartJobRun, https://docs.aws.amazon.com/emr-serverless/latest/APIReference/.
"""

from typing import Literal

from pydantic import Field

from lake_assets.config.fields import Texts
from lake_assets.config.model import Model
from lake_assets.config.uris import DriverPath, S3Folder, S3Object


class EmrServerless(Model):
    """The run starts its driver as a job run of an EMR Serverless application.

    There are no keys: the launcher has the credential chain, and the driver its execution role.
    """

    launcher: Literal["emr_serverless"] = Field(description="The name of this launcher.")
    application_id: str = Field(pattern=r"^[0-9a-z]{1,64}$", description="The application, as `00f5q3k2abcdef01`.")
    execution_role: str = Field(
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$", description="ARN of the driver's role."
    )
    region: str = Field(pattern=r"^[a-z]{2,}(-[a-z]+)+-[0-9]+$", description="The application's region.")
    entry_point: S3Object = Field(
        description="The driver's script in a bucket: a copy of `lake_assets/remote/__main__.py`."
    )
    archive: S3Object | None = Field(
        None, description="The packed Python environment in a bucket; the application's image has one when absent."
    )
    messages: S3Folder = Field(description="Folder for the request of a run and the driver's messages.")
    config: DriverPath | None = Field(
        None,
        description="The config where the driver reads it: a URI, or an absolute path in the image. When absent, the "
        "URI that the launcher itself has read.",
    )
    logs: S3Folder | None = Field(None, description="Folder for the job's logs; the application's own when absent.")
    environment: Texts = Field(
        default_factory=dict,
        description="Variables of the driver, without secrets; `EMR.secret@NAME` is a secret of Secrets Manager.",
    )
    tags: Texts = Field(default_factory=dict, description="Tags of the job run.")
    timeout_minutes: int | None = Field(
        None, ge=5, le=1_000_000, description="Minutes after which the job run is ended; 12 hours when absent."
    )
