import { IconPencil } from '@tabler/icons-react'
import { Link, useLocation } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../paths'
import classes from './DraftBar.module.css'
import { useDrafted } from './draft'

/** Says on every page that there is a draft, so that no one mistakes it for what is stored. */
export default function DraftBar() {
  const { t } = useTranslation()
  const count = useDrafted().length
  const here = useLocation().pathname === paths.draft
  if (count === 0 || here) return null
  return (
    <section className={classes.bar} aria-label={t('draft.bar.label')}>
      <IconPencil size={16} className={classes.icon} aria-hidden />
      <span className={classes.text}>
        {t('draft.bar.text', { count })} <Link to={paths.draft}>{t('draft.review')}</Link>
      </span>
    </section>
  )
}
