import { useTranslation } from 'react-i18next'
import { Notice } from '../state/Notice'
import type { FieldSpec } from './fields'
import classes from './notices.module.css'

/** The secrets of a row that were stored with another master key, by the names of the API. */
const lost = (row: object): readonly string[] => (row as { enter_again?: string[] }).enter_again ?? []

/** The field of a form that a secret belongs to: the one that says most exactly that it covers it. */
function fieldOf(secret: string, fields: readonly FieldSpec[]): string {
  const reach = ({ name, covers = [] }: FieldSpec) =>
    Math.max(...[name, ...covers].map((one) => (`${secret}.`.startsWith(`${one}.`) ? one.length : 0)))
  const best = fields.reduce((a, b) => (reach(b) > reach(a) ? b : a))
  return best.name
}

/** The fields of a form whose secrets must be entered again. */
export const lostFields = (row: object, fields: readonly FieldSpec[]): string[] => [
  ...new Set(lost(row).map((secret) => fieldOf(secret, fields))),
]

interface NoticeProps {
  row: object
  fields: readonly FieldSpec[]
  text: string
}

/** Says over the form of a row which of its secrets must be entered again. */
export function EnterAgainNotice({ row, fields, text }: NoticeProps) {
  const { t } = useTranslation()
  const names = lostFields(row, fields).map((name) => t(`${text}.${name}.label`))
  if (names.length === 0) return null
  return (
    <div className={classes.notice}>
      <Notice tone="bad" title={t('secret.lostTitle')}>
        {t('secret.lost', { names: names.join(', ') })}
      </Notice>
    </div>
  )
}
