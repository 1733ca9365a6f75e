import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './Diff.module.css'
import { parseDiff } from './diff-lines'

const words = { add: 'diff.added', del: 'diff.removed' } as const
const signs = { add: '+', del: '−', same: ' ', hunk: '', file: '' }

/** The server's unified diff, with both line numbers. The file name distinguishes it from other diffs on the page. */
export function Diff({ text, file }: { text: string; file?: string }) {
  const { t } = useTranslation()
  // The file name is shown above the diff.
  const lines = useMemo(() => parseDiff(text).filter(({ kind }) => kind !== 'file' || !file), [text, file])
  if (lines.length === 0) return <p className="soft">{t('diff.none')}</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
    <section className={classes.diff} aria-label={file ? t('diff.of', { file }) : t('diff.label')} tabIndex={0}>
      <table>
        <tbody>
          {lines.map((line, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a diff is replaced as a whole, and its lines have no ids.
            <tr key={index} data-kind={line.kind}>
              <td className={classes.number}>{line.before}</td>
              <td className={classes.number}>{line.after}</td>
              <td className={classes.sign}>
                {signs[line.kind]}
                {(line.kind === 'add' || line.kind === 'del') && (
                  <span className="visually-hidden">{t(words[line.kind])}</span>
                )}
              </td>
              <td className={classes.code}>{line.text}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** The diffs of several files. */
export function FileDiffs({ files }: { files: readonly { path: string; diff: string }[] }) {
  return files.map(({ path, diff }) => (
    <div key={path}>
      <p className={`mono ${classes.path}`}>{path}</p>
      <Diff text={diff} file={path} />
    </div>
  ))
}

/** A whole file. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
    <section className={classes.diff} aria-label={label} tabIndex={0}>
      <pre className={classes.file}>{text}</pre>
    </section>
  )
}
