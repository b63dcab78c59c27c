import type { Stats } from 'node:fs';

const GROUP_WRITE = 0o020;
const OTHERS_WRITE = 0o002;

/**
 * Explains why code must not be loaded from a file or directory: it is a symbolic link or special file, belongs to a user other
 * than root and the process user, or is writable by others. This is the rule of OpenSSH's `StrictModes`. It accepts a file
 * that is writable by its owner's private group (group id equals user id, the default of Debian and Red Hat with umask 002).
 *
 * @param stats from `lstat`, so that links are not followed
 * @param uid of the process; undefined on systems without user ids (Windows), where only the type is checked
 * @returns the reason, or null if the file may be loaded
 */
export function distrustReason(
  stats: Pick<Stats, 'uid' | 'gid' | 'mode' | 'isFile' | 'isDirectory' | 'isSymbolicLink'>,
  kind: 'file' | 'directory',
  uid = process.getuid?.(),
): string | null {
  if (stats.isSymbolicLink()) return 'is a symbolic link; put the file itself here';
  if (!(kind === 'file' ? stats.isFile() : stats.isDirectory())) return `is not a ${kind}`;
  if (uid === undefined) return null;
  if (stats.uid !== uid && stats.uid !== 0) {
    return `belongs to user ${stats.uid}; it must belong to user ${uid}, which runs this service, or to root`;
  }
  const isPrivateGroup = stats.uid !== 0 && stats.gid === stats.uid;
  if (stats.mode & OTHERS_WRITE || (stats.mode & GROUP_WRITE && !isPrivateGroup)) {
    return 'can be written by other users; run chmod go-w on it';
  }
  return null;
}
