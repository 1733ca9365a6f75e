import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './Diff.module.css'
import { parseDiff } from './diff-lines'

const words = { add: 'diff.added', del: 'diff.removed' } as const
const signs = { add: '+', del: '−', same: ' ', hunk: '', file: '' }

/** A unified diff as the server made it, with line numbers of both sides. The file's name tells it from others on the same page. */
export function Diff({ text, file }: { text: string; file?: string }) {
  const { t } = useTranslation()
  // The name of the file is above it.
  const lines = useMemo(() => parseDiff(text).filter(({ kind }) => kind !== 'file' || !file), [text, file])
  if (lines.length === 0) return <p className="soft">{t('diff.none')}</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard.
    <section className={classes.diff} aria-label={file ? t('diff.of', { file }) : t('diff.label')} tabIndex={0}>
      <table>
        <tbody>
          {lines.map((line, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a diff is replaced as a whole, its lines have no other name.
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

/** What happens to files, or happened. */
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
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard.
    <section className={classes.diff} aria-label={label} tabIndex={0}>
      <pre className={classes.file}>{text}</pre>
    </section>
  )
}
