"""The container of a Pod, as a process: its environment, and its files at their paths in a read-only root."""

import base64
import os
import pathlib
import re
import shutil
import subprocess

from service import BINARY

# Mounts the volumes into a root of their own, makes it read-only, and becomes the program.
ENTER = r"""
root=$1 user=$2; shift 2
mount -t tmpfs none "$root"
for entry in usr lib lib64 proc dev; do
  if [ -L "/$entry" ]; then
    cp -P "/$entry" "$root/"
  elif [ -d "/$entry" ]; then
    mkdir "$root/$entry" && mount --rbind "/$entry" "$root/$entry"
  fi
done
touch "$root/raindrop" && mount --bind "$1" "$root/raindrop"; shift
while [ "$1" != -- ]; do
  mkdir -p "$root$2" && mount --bind "$1" "$root$2"; shift 2
done
shift
mount -o remount,ro "$root"
exec chroot ${user:+--userspec="$user"} "$root" /raindrop "$@"
"""
IS_ROOT = os.geteuid() == 0
LISTENS = {"http": "RAINDROP__HTTP__LISTEN", "admin": "RAINDROP__HTTP__ADMIN_LISTEN"}


class Container:
    """The containers of a Pod, which run the built binary as its user, if the tests run as root: those that
    initialize it one after the other, and then the only one that stays."""

    def __init__(self, servers, pod, address, folder):
        self.api = servers.api
        self.port = servers.port
        self.pod = pod
        self.spec = pod["spec"]
        self.initial = self.spec.get("initContainers", [])
        (self.container,) = self.spec["containers"]
        self.address = address
        self.folder = folder
        self.log = self.log_of(self.container)
        self._namespace = f"/api/v1/namespaces/{pod['metadata']['namespace']}"
        self._mounts = {}
        (folder / "root").mkdir(parents=True)

    def log_of(self, container):
        return self.folder / f"{container['name']}.log"

    def write_files(self):
        """Writes the files of every volume; ApiError if the API has not yet what they are made of."""
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        folders = {name: self._volume(volume) for name, volume in volumes.items()}
        for container in [*self.initial, self.container]:
            mounts = [(folders[mount["name"]], mount["mountPath"]) for mount in container["volumeMounts"]]
            self._mounts[container["name"]] = mounts

    def start(self, container):
        """Starts a container's program; its process."""
        security = self.spec["securityContext"]
        user = f"{security['runAsUser']}:{security['runAsGroup']}" if IS_ROOT else ""
        enter = ["unshare", "--mount", *([] if IS_ROOT else ["--map-root-user"])]
        paths = [part for mount in self._mounts[container["name"]] for part in mount]
        arguments = [self.folder / "root", user, BINARY, *paths, "--", *container["args"]]
        with open(self.log_of(container), "a") as log:
            return subprocess.Popen(
                [*enter, "sh", "-eu", "-c", ENTER, "sh", *map(str, arguments)],
                env=self._environment(container),
                stdout=log,
                stderr=log,
            )

    def _environment(self, container):
        environment = {
            "PATH": os.environ["PATH"],
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
        }
        for variable in container.get("env", []):
            value = variable.get("value", "")
            if source := variable.get("valueFrom"):
                value = self._field(source["fieldRef"]["fieldPath"])
            environment[variable["name"]] = re.sub(
                r"\$\(([A-Z_]+)\)", lambda found: environment[found[1]], value
            )
        for port in container.get("ports", []):
            environment[LISTENS[port["name"]]] = f"{self.address}:{port['containerPort']}"
        return environment

    def _field(self, path):
        found = self.pod
        label = re.fullmatch(r"metadata\.labels\['(.*)'\]", path)
        for part in ["metadata", "labels", label[1]] if label else path.split("."):
            found = found[part]
        return found

    def _volume(self, volume):
        folder = self.folder / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        mode = 0o644
        if "emptyDir" in volume:
            folder.chmod(0o2777)
        elif "projected" in volume:
            mode = volume["projected"]["defaultMode"]
            for source in volume["projected"]["sources"]:
                self._write(folder, mode, self._projected(source))
        else:
            (kind,) = set(volume) & {"configMap", "secret"}
            mode = volume[kind]["defaultMode"]
            self._write(folder, mode, self._files(kind, volume[kind]))
        return folder

    def _projected(self, source):
        if token := source.get("serviceAccountToken"):
            account = f"{self._namespace}/serviceaccounts/{self.spec['serviceAccountName']}"
            bound = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self.pod["metadata"]["name"],
                "uid": self.pod["metadata"]["uid"],
            }
            request = {"spec": {"expirationSeconds": token["expirationSeconds"], "boundObjectRef": bound}}
            return {token["path"]: self.api.post(f"{account}/token", request)["status"]["token"].encode()}
        if fields := source.get("downwardAPI"):
            items = fields["items"]
            return {item["path"]: self._field(item["fieldRef"]["fieldPath"]).encode() for item in items}
        return self._files("configMap", source["configMap"])

    def _files(self, kind, source):
        name = source.get("secretName") or source["name"]
        found = self.api.get(f"{self._namespace}/{kind.lower()}s/{name}").get("data", {})
        if kind == "secret":
            data = {key: base64.b64decode(value) for key, value in found.items()}
        else:
            data = {key: value.encode() for key, value in found.items()}
        items = source.get("items") or [{"key": key, "path": key} for key in data]
        return {item["path"]: data[item["key"]] for item in items}

    def _write(self, folder, mode, files):
        group = self.spec["securityContext"]["fsGroup"]
        for name, content in files.items():
            path = pathlib.Path(folder, name)
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(mode | 0o040)
            if IS_ROOT:
                shutil.chown(path, user=0, group=group)
